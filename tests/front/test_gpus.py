"""Decisions about GPUs, by tables: which ones a task sees, where arrays are, by which path a channel's data go."""

from __future__ import annotations

from pathlib import Path

import pytest

from wilkins.errors import UsageError
from wilkins.plan.gpu_count import gpus_here
from wilkins.plan.gpus import End, Machine, channel_path, deal, settle
from wilkins.plan.plan import Mode
from wilkins.spec.gpu_names import visible

HOST = End("host")
PINNED = End("pinned")
GPU0, GPU1 = End("cuda", "0"), End("cuda:1", "1")
UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"


@pytest.mark.parametrize(
    ("setting", "count", "seen"),
    [
        (None, 0, ()),
        (None, 3, ("0", "1", "2")),
        ("", 3, ()),
        ("-1", 3, ()),
        ("2,0", 3, ("2", "0")),
        (" 1 , 2 ", 3, ("1", "2")),
        ("0,-1,1", 3, ("0",)),
        ("0,7,1", 3, ("0",)),
        ("0,x,1", 3, ("0",)),
        (f"{UUID},1", 3, (UUID, "1")),
        ("MIG-1c8", 1, ("MIG-1c8",)),
        (UUID, 0, ()),
        ("0", 0, ()),
    ],
)
def test_what_a_process_sees(setting: str | None, count: int, seen: tuple[str, ...]) -> None:
    assert visible(setting, count) == seen == Machine(count, setting).pool


@pytest.mark.parametrize(
    ("wanted", "pool", "dealt"),
    [
        ([1, 1, 1], "0123", ["0", "1", "2"]),
        ([2, 2], "0123", ["01", "23"]),
        ([1, None, 0, 1], "01", ["0", None, "", "1"]),
        ([2, 1, 2], "0123", ["01", "2", "30"]),
        ([1, 1, 1], "01", ["0", "1", "0"]),
        ([3], "01", ["01"]),
        ([3, 1], "01", ["01", "1"]),
        ([1, 2], "", ["", ""]),
        ([1, 1], ["GPU-a", "GPU-b"], [("GPU-a",), ("GPU-b",)]),
    ],
)
def test_gpus_are_dealt_round_robin(wanted: list[int | None], pool: str, dealt: list[str | None]) -> None:
    assert deal(wanted, pool) == [None if gpus is None else tuple(gpus) for gpus in dealt]


@pytest.mark.parametrize(
    ("asked", "seen", "given", "end"),
    [
        (None, "01", True, HOST),
        ("host", "01", True, HOST),
        ("auto", "01", True, GPU0),
        ("auto", "01", False, End("host", why="has no 'gpus'")),
        ("auto", "", True, End("host", why="sees no GPU")),
        ("cuda", "10", True, End("cuda", "1")),
        ("cuda", "01", False, GPU0),
        ("cuda:1", "01", True, GPU1),
        ("cuda:0", "1", True, End("cuda:0", "1")),
        ("pinned", "0", False, PINNED),
        ("pinned", "", False, End("host", why="sees no GPU")),
        ("cuda", "", False, End("host", why="sees no GPU", lacks=True)),
        ("cuda:2", "01", False, End("host", why="sees 2 of the 3 GPUs that 'cuda:2' needs", lacks=True)),
    ],
)
def test_where_the_arrays_of_a_port_are(asked: str | None, seen: str, given: bool, end: End) -> None:
    assert settle(asked, tuple(seen), given=given) == end


@pytest.mark.parametrize(
    ("mode", "writer", "reader", "path", "why"),
    [
        ("memory", HOST, HOST, "host", "both ends are on the host"),
        ("memory", HOST, End("host", why="sees no GPU"), "host", "the reader sees no GPU"),
        ("memory", End("host", why="has no 'gpus'"), HOST, "host", "the writer has no 'gpus'"),
        ("memory", HOST, GPU0, "pinned", "the writer is on the host, the reader uses GPU 0"),
        ("memory", GPU0, HOST, "pinned", "the writer uses GPU 0, the reader is on the host"),
        ("memory", GPU0, End("host", why="has no 'gpus'"), "pinned", "the writer uses GPU 0, the reader has no 'gpus'"),
        ("memory", HOST, PINNED, "pinned", "the writer is on the host, the reader is pinned"),
        ("memory", PINNED, GPU1, "pinned", "the writer is pinned, the reader uses GPU 1"),
        ("memory", GPU0, GPU1, "pinned", "no GPU in common: the writer uses GPU 0, the reader GPU 1"),
        ("memory", GPU0, GPU0, "ipc", "both ends use GPU 0"),
        ("memory", GPU1, End("cuda", "1"), "ipc", "both ends use GPU 1"),
        ("both", GPU0, GPU0, "pinned", "the file on disk is written from host memory"),
        ("both", HOST, GPU0, "pinned", "the writer is on the host, the reader uses GPU 0"),
        ("file", GPU0, GPU0, "host", "the steps are on disk only"),
        ("file", HOST, HOST, "host", "both ends are on the host"),
    ],
)
def test_the_path_of_a_channel(mode: Mode, writer: End, reader: End, path: str, why: str) -> None:
    assert channel_path(mode, writer, reader) == (path, why)


def test_gpus_are_counted_by_the_device_files(tmp_path: Path) -> None:
    for name in ("dev/nvidia0", "dev/nvidia1", "dev/nvidia10", "dev/nvidiactl", "dev/nvidia-uvm", "dev/null"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    assert gpus_here({}, tmp_path) == Machine(3)
    assert gpus_here({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path).pool == ("1",)
    assert gpus_here({"WILKINS_GPUS": "7"}, tmp_path) == Machine(7)
    assert gpus_here({"WILKINS_GPUS": "0"}, tmp_path) == Machine(0)


def test_before_there_are_device_files_the_driver_tells(tmp_path: Path) -> None:
    assert gpus_here({}, tmp_path) == Machine(0)
    for address in ("0000:01:00.0", "0000:41:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / address).mkdir(parents=True)
    assert gpus_here({}, tmp_path) == Machine(2)


def test_a_count_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="WILKINS_GPUS must be the number of this machine's GPUs, not 'two'"):
        gpus_here({"WILKINS_GPUS": "two"}, tmp_path)
