"""The ready-made task: checkpoints of a stream of a program's own files."""
