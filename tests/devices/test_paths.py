"""Which device a port's data comes to, and in which pieces arrays are copied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wilkins.transport.devices import paths, ports


@pytest.mark.parametrize(
    ("device", "devices", "where"),
    [
        ("host", 2, "host"),
        ("cpu", 2, "host"),
        ("auto", 0, "host"),
        ("auto", 1, "cuda:0"),
        ("pinned", 0, "host"),
        ("pinned", 1, "pinned"),
        ("cuda", 1, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_where_arrays_come_to(device: str, devices: int, where: str) -> None:
    assert str(paths.choose(device, devices)) == where


def test_a_gpu_that_is_not_there_is_an_error_that_says_why() -> None:
    with pytest.raises(LookupError, match=r"'cuda' is not there: no driver; use 'auto'"):
        paths.choose("cuda", 0, "no driver")
    with pytest.raises(LookupError, match="this process sees 1"):
        paths.choose("cuda:1", 1)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "host:1", "cuda:x", ""])
def test_what_is_no_device_is_told_what_is(device: str) -> None:
    with pytest.raises(ValueError, match="is no device: give auto, host, pinned, cuda"):
        paths.choose(device, 1)


def test_a_file_belongs_to_the_port_whose_pattern_its_last_parts_match(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"plt*.h5": ports.PortDevice("cuda:1", "ipc", ipc=True), "out/b?.h5": ports.PortDevice("auto", "pinned")}
    monkeypatch.setenv("WILKINS_DEVICES", ports.dumps(found))
    paths._configured.cache_clear()
    names = ["plt1.h5", "/scratch/plt22.h5", "out/b1.h5", "b1.h5", "other.h5"]
    told = [paths.port_of(name) for name in names]
    paths._configured.cache_clear()
    assert told == [found["plt*.h5"]] * 2 + [found["out/b?.h5"]] + [ports.HOST] * 2


@given(st.data())
def test_runs_of_any_strided_array_make_it_contiguous(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple))
    base = np.arange(int(np.prod([2 * n + 1 for n in shape], dtype=int))).reshape([2 * n + 1 for n in shape])
    steps = tuple(slice(1, 1 + n * step, step) for n, step in ((n, data.draw(st.integers(1, 2))) for n in shape))
    array = base[steps].transpose(data.draw(st.permutations(range(len(shape)))))
    assert array.size == np.prod(shape, dtype=int)
    strides = tuple(stride // 8 for stride in array.strides)
    flat = base.reshape(-1)
    first = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8
    length, offsets = paths.copy_runs(array.shape, strides)
    parts = [flat[first + offset : first + offset + length] for offset in offsets]
    assert np.array_equal(np.concatenate(parts) if parts else np.empty(0, int), array.ravel())


def test_a_contiguous_array_is_one_run() -> None:
    assert paths.copy_runs((3, 4, 5), (20, 5, 1)) == (60, [0])
    assert paths.copy_runs((), ()) == (1, [0])
