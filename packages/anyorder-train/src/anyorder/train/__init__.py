"""Objectives assembled from parts, the training loop, checkpoints, tracking, comparison and evaluation."""
