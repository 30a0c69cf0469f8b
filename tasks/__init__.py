"""Ready-made tasks on channels: training, inference, checkpointing, analysis."""
