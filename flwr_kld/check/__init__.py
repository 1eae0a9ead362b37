"""What a check measured and what it decides: all of it public, and post-processing."""
