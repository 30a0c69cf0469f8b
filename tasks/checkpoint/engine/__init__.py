"""The checkpointer: captures a state, writes it behind the program's back, restores it."""
