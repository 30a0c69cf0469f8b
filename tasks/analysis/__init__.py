"""Analyses of any HDF5 stream, from YAML alone: moments, histograms, pictures, subsamples, an archive."""
