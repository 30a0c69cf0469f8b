"""The commands about timelines: `wilkins simulate` predicts one, `wilkins trace` shows one as it happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wilkins.errors import StuckError, count_of
from wilkins.flow.placement import Host
from wilkins.flow.recorded import computing_times, steps_written, without_start
from wilkins.flow.simulation import simulate as simulate_model
from wilkins.flow.timeline import Blocked
from wilkins.plan.graph import wire
from wilkins.report.network import network, on_hosts, traffic
from wilkins.report.packed import compressed_ports, known, of_timeline, with_packing
from wilkins.report.pictures import output_timelines
from wilkins.report.predict import model_of
from wilkins.report.runs import account_of_run, events_of_run, timeline_of, timeline_of_run
from wilkins.report.shared_memory import footprints, total_line, warnings, written
from wilkins.spec.load import load
from wilkins.terminal import streams

_CURE = (
    "let one of them go first: 'first: missing' on the in-port that closes a cycle, a longer 'queue', or a 'flow' that "
    "drops steps"
)


def simulate(
    file: Path,
    overrides: Sequence[str],
    rate: int | None,
    measured: Path | None,
    run: Path | None,
    file_format: str,
    target: Path | None,
    *,
    files: bool = False,
    hosts: Sequence[Host] = (),
    latency: Sequence[str] = (),
    bandwidth: Sequence[str] = (),
) -> int:
    """Predict the timeline of a workflow and put it out, with the shared memory that its steps take at most.

    Args:
        rate: bytes per second that a rank copies.
        measured: a run whose computing times, and numbers and sizes of steps, stand in for those that the file does
            not give.
        run: a run to be shown beside the prediction, without its start.
        files: every coupled port in mode ``file``.
        hosts: on which the tasks would run.
        latency: of the hosts' network, as `network` takes it, and so `bandwidth`.

    Raises:
        StuckError: the tasks would wait for each other.
        WilkinsError: the file is wrong, or something cannot be read or written.
    """
    joined = network(hosts, latency, bandwidth)
    document = load(file, overrides)
    wiring = wire(document, files=files)
    folder, events = events_of_run(measured) if measured else (None, [])
    before = timeline_of(folder, events) if folder else None
    times, steps = (computing_times(before), steps_written(before)) if before else (None, None)
    sizes = written(events)
    model = model_of(document, wiring, rate, times, steps, {port: one.size for port, one in sizes.items()})
    packed = known(compressed_ports(document), folder) if hosts else {}
    if hosts:
        model = with_packing(on_hosts(model, document, hosts, joined), packed)
    timeline = simulate_model(model)
    pays = of_timeline(timeline, model.hosts, packed)
    found, unknown = footprints(document, wiring, sizes, timeline)
    panels = [(f"{document.workflow.name}, model", timeline)]
    if run:
        panels.append((f"{document.workflow.name}, run {run}", without_start(timeline_of_run(run))))
    output_timelines(panels, file_format, target)
    if target is None and file_format == "text":
        crossed = traffic(timeline, [one.text for one in pays if not one.slower]) if hosts else ""
        for text in (crossed, total_line(found, unknown)):
            if text:
                streams.show(f"\n{text}")
    slower = [one.text for one in pays if one.slower]
    for warning in [*slower, *(warnings(found, None) if hosts else warnings(found))]:
        streams.log(warning)
    if timeline.stuck:
        raise StuckError(f"the workflow would get stuck:\n{_explained(timeline.stuck)}\n{_CURE}")
    return 0


def _explained(stuck: Sequence[Blocked]) -> str:
    """A line for each task and port at which ranks wait."""
    groups: dict[tuple[str, str], list[Blocked]] = {}
    for blocked in stuck:
        groups.setdefault((blocked.task, blocked.what), []).append(blocked)
    return "\n".join(
        f"  {group[0]}" + (f" (and {count_of(len(group) - 1, 'other rank')})" if group[1:] else "")
        for group in groups.values()
    )


def trace(run: Path, skip_start: bool, file_format: str, target: Path | None) -> int:
    """Put out the timeline of a run; as text, with a table of the steps that were not read.

    Raises:
        UsageError: there is no trace, or it cannot be drawn or written.
    """
    timeline = timeline_of_run(run)
    if skip_start:
        timeline = without_start(timeline)
    output_timelines([(f"{run.resolve().name}", timeline)], file_format, target)
    if target is None and file_format == "text" and (text := account_of_run(run)):
        streams.show(f"\n{text}")
    return 0
