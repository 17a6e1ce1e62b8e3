"""Transformer-XL segment memory: what one segment leaves for the next to read."""
