"""The rehearsal buffer: one shard per rank, together one population to draw from."""
