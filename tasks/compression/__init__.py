"""Smaller copies of HDF5 files, compared with what they are copies of before anybody sees them."""
