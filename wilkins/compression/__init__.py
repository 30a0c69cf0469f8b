"""What compression of HDF5 files has in common, on disk and on the way between hosts: bounds, and what a file holds."""
