"""What the command line shows with: its streams, the words of errors, tables."""
