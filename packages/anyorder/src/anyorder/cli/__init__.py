"""Permutation language modelling and its neighbours from interchangeable parts: the anyorder command."""
