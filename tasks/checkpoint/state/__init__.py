"""A program's state as bytes and as JSON."""
