"""Versions in the memory of several nodes, with parity of partners."""
