"""Versions in folders: their files, how they are found, checked and cleared away."""
