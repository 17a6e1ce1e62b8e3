"""The two-stream Transformer-XL backbone as plain readable code, with its presets."""
