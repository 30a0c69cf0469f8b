"""A run while it lasts: its tasks on the board, what their ends mean, who waits for whom."""
