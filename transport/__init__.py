"""Moves steps between tasks: the native layer and its Python face."""
