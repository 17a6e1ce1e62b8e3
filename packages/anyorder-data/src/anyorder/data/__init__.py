"""Tokenizer, corpus preparation and contiguous memory-mapped rows; ships a small public-domain corpus."""
