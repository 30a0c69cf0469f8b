"""Flow policies: which steps of a channel are kept, queued and dropped, and who waits for whom."""

from wilkins.flow.policy import FlowPolicy

__all__ = ["FlowPolicy"]
