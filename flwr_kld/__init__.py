"""Private drift monitoring for Flower federations."""
