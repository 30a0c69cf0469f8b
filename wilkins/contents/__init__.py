"""What files of data hold, at a glance: format, datasets, and a small picture's worth of one field."""
