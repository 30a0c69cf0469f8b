"""What a workflow file is read with: positions, kinds of values, sections, patterns of names."""
