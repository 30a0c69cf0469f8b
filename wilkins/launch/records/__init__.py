"""What a run leaves: its directory, the account of its steps, its summary."""
