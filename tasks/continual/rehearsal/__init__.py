"""The rehearsal buffer: one part per rank, together one population to draw from."""
