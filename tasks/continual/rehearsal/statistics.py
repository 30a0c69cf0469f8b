"""What a rehearsal buffer has done, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Statistics:
    """One rank's shard after a step. Totals count from the first step, across restarts; times from the last start."""

    step: int = 0
    """Batches offered so far."""
    capacity: int = 0
    """Samples this rank has room for; 0 before the first batch."""
    size: int = 0
    """Samples this rank holds."""
    sample_bytes: int = 0
    """Bytes of a sample as it is kept."""
    classes: dict[int, int] = field(default_factory=dict)
    """Samples this rank holds of each class; empty for unlabelled streams."""
    population: int = 0
    """Samples of all ranks that the last representatives were drawn from."""
    candidates: int = 0
    """Samples offered to this shard."""
    kept: int = 0
    """Candidates that were kept."""
    replaced: int = 0
    """Samples that made room."""
    skipped: int = 0
    """Candidates left out because they hold NaN."""
    drawn: int = 0
    """Representatives this rank got."""
    drawn_elsewhere: int = 0
    """The drawn samples that came from other ranks."""
    messages: int = 0
    """Messages with samples that came in."""
    bytes_received: int = 0
    """Bytes of samples in these."""
    bytes_sent: int = 0
    """Bytes of samples sent to other ranks."""
    waits: int = 0
    """How often representatives were taken."""
    wait_seconds: float = 0.0
    """Time the training loop waited for representatives."""
    longest_wait: float = 0.0
    """The longest of these waits, in seconds."""
    round_seconds: float = 0.0
    """Time from offering batches until their representatives were at hand, other ranks' delays included."""
