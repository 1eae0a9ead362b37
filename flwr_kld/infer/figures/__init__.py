"""What tools for drift show of a column, from noisy counts: post-processing, at no further cost."""
