"""Mask builders: from an order to the content and query streams a Transformer reads."""
