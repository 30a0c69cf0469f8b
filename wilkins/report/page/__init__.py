"""A run as one HTML page that needs no network: what it was, where its time went, and a timeline to zoom into."""
