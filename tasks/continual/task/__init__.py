"""The ready-made task: trains on a stream, measures, publishes versions of the model."""
