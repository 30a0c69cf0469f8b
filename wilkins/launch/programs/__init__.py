"""Programs: how they are started, what they print, and how all that they have started is ended."""
