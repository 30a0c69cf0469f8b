"""Goes on with a run that was killed or failed: to what its tasks can go back, and the plan of what is left."""
