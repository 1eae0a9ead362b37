"""Drift checks of images by writer."""
