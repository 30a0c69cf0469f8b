"""Versions spread over places of different room and reliability, as pieces of an erasure code."""
