"""Searches for noise that keeps a guarantee; the kernel proves what they find."""
