"""Attention backends, and the Transformer-XL position bias and XLNet segment bias."""
