"""The launch as ranks of one MPI job."""
