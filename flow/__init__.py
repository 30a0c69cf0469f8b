"""Flow policies: which steps of a channel are kept, queued and dropped, and who waits for whom."""

from wilkins.flow.policy import FlowPolicy

__all__ = ["TRACE_FILE", "FlowPolicy"]

TRACE_FILE = "trace.tsv"
"""The trace in a run's directory; `wilkins.flow.trace` reads it."""
