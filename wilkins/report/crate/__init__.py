"""A run as a Workflow Run RO-Crate: what was run, with what, and what came of it."""
