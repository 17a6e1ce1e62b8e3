"""Loss heads that return a sum and a weight: tied cross entropy and next-sentence prediction."""
