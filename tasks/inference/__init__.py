"""Serves predictions of a model that is being trained."""
