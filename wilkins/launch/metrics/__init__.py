"""The numbers of a run for Prometheus: as text, in a file, and at an address."""
