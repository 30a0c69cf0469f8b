"""Measurements: what a channel costs, against memcpy and files, in one run on one machine."""
