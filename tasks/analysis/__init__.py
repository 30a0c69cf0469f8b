"""Analyses of any HDF5 stream, from YAML alone: moments, histograms, clusters, pictures, subsamples, an archive."""
