"""Order samplers and target choice for permutation, masked, prefix and left-to-right language modelling."""
