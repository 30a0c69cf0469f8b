"""The hosts of a run as people and schedulers write them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from support.running import write_program
from wilkins.errors import UsageError
from wilkins.flow.placement import Host
from wilkins.plan.hosts import expanded, flux_resources, from_allocation, from_file, from_words


def test_words() -> None:
    assert from_words("node0:8, node1:4") == (Host("node0", 8), Host("node1", 4))
    assert from_words("a,b") == (Host("a", 0), Host("b", 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:x", "--hosts must be names with numbers of ranks"),
        ("a:1,a:2", "the host 'a' stands there twice"),
        ("a:1,b", "'b' has no number of ranks, and others have"),
        ("-oProxyCommand=x:1", "--hosts must be names"),
        ("-l:1", "'-l' is not the name of a host"),
    ],
)
def test_words_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_words(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node0:8\n# a comment\n\nnode1:4\n", (Host("node0", 8), Host("node1", 4))),
        ("node0 slots=8\nnode1 slots=4 # with a comment\n", (Host("node0", 8), Host("node1", 4))),
        ("a\nb\n", (Host("a", 0), Host("b", 0))),
        ("a\na\nb\nb\nb\n", (Host("a", 2), Host("b", 3))),
    ],
)
def test_files(tmp_path: Path, text: str, hosts: tuple[Host, ...]) -> None:
    (tmp_path / "hosts").write_text(text)
    assert from_file(tmp_path / "hosts") == hosts


@pytest.mark.parametrize("text", ["", "a b c\n", "a:1:2\n"])
def test_files_that_are_wrong(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(UsageError):
        from_file(tmp_path / "hosts")
    with pytest.raises(UsageError, match="cannot be read"):
        from_file(tmp_path / "missing")


def test_slurms_lists() -> None:
    assert expanded("node[0-2,7],login1") == ["node0", "node1", "node2", "node7", "login1"]
    assert expanded("c[08-10]-x") == ["c08-x", "c09-x", "c10-x"]
    assert expanded("r[0-1]n[0-1]") == ["r0n0", "r0n1", "r1n0", "r1n1"]


FLUX = """{{"version": 1, "execution": {{"R_lite": {entries}, "nodelist": {names},
"starttime": 0.0, "expiration": 0.0}}}}"""
"""As ``flux resource R`` prints it (Flux RFC 20; sets of numbers as in RFC 22, of names as in RFC 29)."""


def in_flux(entries: str, names: str) -> tuple[Host, ...]:
    return from_allocation({"FLUX_URI": "local:///run/flux/local"}, lambda: FLUX.format(entries=entries, names=names))


def test_allocations_of_flux() -> None:
    all_alike = """[{"rank": "0-2", "children": {"core": "0-15", "gpu": "0-3"}}]"""
    assert in_flux(all_alike, """["corona[171,200-201]"]""") == (
        *(Host("corona171", 16), Host("corona200", 16), Host("corona201", 16)),
    )
    assert in_flux(all_alike, """["i-09b9,i-008f", "i-028d"]""") == (
        *(Host("i-09b9", 16), Host("i-008f", 16), Host("i-028d", 16)),
    )
    mixed = """[{"rank": "0,2", "children": {"core": "0-3,8"}}, {"rank": "1", "children": {"core": "7"}}]"""
    assert in_flux(mixed, """["a[0-2]"]""") == (Host("a0", 5), Host("a1", 1), Host("a2", 5))
    assert in_flux(mixed, """["one,one,one"]""") == (Host("one", 5),), "brokers of a test on one machine"


def test_flux_where_it_gives_no_hosts() -> None:
    """In a job's tasks, whose ranks the job starts; and where its variable has come along, but not its command."""
    inside = {"FLUX_URI": "local:///run/flux/local"}
    assert from_allocation(inside | {"FLUX_TASK_RANK": "0"}, lambda: "not asked") == ()
    assert from_allocation(inside, lambda: "") == ()
    for said in ("nonsense", "{}", FLUX.format(entries='[{"rank": "0-1", "children": {"core": "0"}}]', names='["a"]')):
        with pytest.raises(UsageError, match="give --hosts"):
            from_allocation(inside, partial(str, said))


def test_flux_is_asked_by_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert flux_resources() == ""
    write_program(tmp_path / "flux", '#!/bin/sh\necho "$@"\n')
    assert flux_resources() == "resource R\n"
    write_program(tmp_path / "flux", '#!/bin/sh\necho "flux-resource: ERROR: [Errno 111] refused" >&2\nexit 1\n')
    with pytest.raises(UsageError, match=r"fails: flux-resource: ERROR: \[Errno 111\] refused; give --hosts"):
        flux_resources()


def test_allocations(tmp_path: Path) -> None:
    slurm = {"SLURM_JOB_NODELIST": "n[0-2]", "SLURM_TASKS_PER_NODE": "4(x2),1"}
    assert from_allocation(slurm) == (Host("n0", 4), Host("n1", 4), Host("n2", 1))
    (tmp_path / "nodes").write_text("a\na\nb\nb\n")
    assert from_allocation({"PBS_NODEFILE": str(tmp_path / "nodes")}) == (Host("a", 2), Host("b", 2))
    assert from_allocation({"LSB_MCPU_HOSTS": "a 4 b 2"}) == (Host("a", 4), Host("b", 2))
    assert from_allocation({}) == ()
    with pytest.raises(UsageError, match="give --hosts"):
        from_allocation({"SLURM_JOB_NODELIST": "n[0-2]", "SLURM_TASKS_PER_NODE": "4"})


def test_a_slurm_allocation_without_tasks_has_cores() -> None:
    nodes = {"SLURM_JOB_NODELIST": "n[0-1]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "16(x2)"}
    assert from_allocation(nodes) == (Host("n0", 16), Host("n1", 16))
    assert from_allocation({**nodes, "SLURM_NTASKS": "2"}) == (Host("n0", 1), Host("n1", 1))


def test_all_parts_of_a_heterogeneous_slurm_job() -> None:
    """As `salloc` and `sbatch` have it, whose plain variables are missing, or of the first part."""
    parts = {
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_NODELIST": "big0",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "big0",
        "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0": "64",
        "SLURM_TASKS_PER_NODE_HET_GROUP_0": "1",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "small[3-4]",
        "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1": "8(x2)",
        "SLURM_TASKS_PER_NODE_HET_GROUP_1": "2(x2)",
        "SLURM_NTASKS_HET_GROUP_1": "4",
    }
    assert from_allocation(parts) == (Host("big0", 64), Host("small3", 2), Host("small4", 2))
