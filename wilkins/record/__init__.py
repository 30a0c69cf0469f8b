"""Runs a program alone, watches what it does with HDF5 files, and writes its task for a workflow file."""
