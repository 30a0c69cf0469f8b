"""Runs the measurements: `python -m benchmarks NAME ...`; NAME is that of a module here, and rate if it is left out."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .rate import Rate, measure


def row(rate: Rate) -> str:
    """One line of the table."""
    low, high = rate.write_spread
    low_read, high_read = rate.read_spread
    return (
        f"{rate.what:<16}  {rate.write:5.2f} ({low:.2f} .. {high:.2f})   "
        f"{rate.read:5.2f} ({low_read:.2f} .. {high_read:.2f})"
        f"   {rate.memcpy_ms:8.1f}"
    )


def rate(arguments: Sequence[str]) -> None:
    """Channels and files, h5py and C, as a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks rate", description="rates of channels and files, as multiples of a memcpy's time"
    )
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--mib", type=int, default=128, help="size of a step")
    options = parser.parse_args(arguments)
    print(
        f"{options.steps} steps of {options.mib} MiB, the first 5 left out; "
        "time / time of a memcpy, medians (and quartiles)"
    )
    print(f"{'':<16}  {'write':<22} {'read':<22} memcpy, ms")
    for language in ("h5py", "C"):
        for files in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                print(
                    row(measure(Path(folder), language=language, files=files, steps=options.steps, mib=options.mib)),
                    flush=True,
                )


def main() -> None:
    """Run the measurement that is named first, or that of rates."""
    name, arguments = "rate", sys.argv[1:]
    if arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
    if name == "rate":
        rate(arguments)
    elif name == "speed":
        from .speed.main import main as speed

        speed(arguments)
    elif name == "flow-control":
        from .flow_report import main as flow_control

        flow_control(arguments)
    elif name == "placement":
        from .placement import main as placement

        placement(arguments)
    elif name == "channels":
        from .channels import main as channels

        channels(arguments)
    elif name == "scaling":
        from .scaling import main as scaling

        scaling(arguments)
    elif name == "restarts":
        from .restarts import main as restarts

        restarts(arguments)
    elif name == "tracing":
        from .tracing import main as tracing

        tracing(arguments)
    elif name == "watching":
        from .watching import main as watching

        watching(arguments)
    elif name == "many-hosts":
        from .many_hosts import main as many_hosts

        many_hosts(arguments)
    elif name == "checksums":
        from .checksums import main as checksums

        checksums(arguments)
    elif name == "relays":
        from .relays import main as relays

        relays(arguments)
    elif name == "gpu":
        from .gpu import main as gpu

        gpu(arguments)
    else:
        known = (
            "rate, speed, channels, scaling, restarts, tracing, watching, flow-control, many-hosts, relays, checksums"
        )
        sys.exit(f"python -m benchmarks: there is no {name!r}; there are {known} and gpu")


if __name__ == "__main__":
    main()
