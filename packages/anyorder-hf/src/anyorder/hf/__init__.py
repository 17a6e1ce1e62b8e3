"""Checkpoints and Auto classes of transformers for anyorder models, both ways."""
