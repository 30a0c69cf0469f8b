"""The records of a run: its directory, the account of its steps, its summary."""
