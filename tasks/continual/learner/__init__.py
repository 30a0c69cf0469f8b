"""The training loop, its strategies, and the ranks that train together."""
