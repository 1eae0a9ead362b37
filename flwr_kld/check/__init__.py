"""What a check measured, decides and reports: all of it public, and post-processing."""
