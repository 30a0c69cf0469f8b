"""Where the pieces of a version go, on hosts or folders of different room, rate and failure rate. Pure."""
