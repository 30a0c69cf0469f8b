"""Serving predictions of a model that is trained meanwhile."""
