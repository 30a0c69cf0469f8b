"""What a workflow file says: its keys, read and checked without a look at the machine."""
