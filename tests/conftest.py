"""What every test file shares: tests say what they need from the machine; nothing that must run is left out unseen."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from programs.build import NEWER, programs_folder

from support.hooks import LIBRARY
from support.running import OWN_MOUNTS
from support.small_workflows import Workflow

SYSTEM_PYTHON = "/usr/bin/python3"
BEFORE = pytest.StashKey[set[Path]]()
"""Segments of MPI that were there already."""

BETWEEN_HOSTS = {
    "WILKINS_RSH": str(Path(__file__).parent / "hosts" / "here"),
    "WILKINS_HOSTS": ",".join(f"h{k}:1" for k in range(1, 129)),
    "OMPI_MCA_btl": "tcp,self",  # ranks that share this machine are not to share memory
}

_TEMPORARY = tempfile.TemporaryDirectory(prefix="here-")
os.environ["WILKINS_TEST_TEMPORARY"] = _TEMPORARY.name
"""Hosts that are all this machine (`hosts/here`) have folders in it: Open MPI's daemons each make some of one name."""

os.environ.pop("PYTHONUNBUFFERED", None)
"""With it Python writes the words of a line one by one, and ``mpiexec`` mixes those of several ranks."""

os.environ["OPENBLAS_NUM_THREADS"] = "1"
"""Threads that no test uses take a tenth of the time in which a Python program imports h5py."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell that starts pytest in the background lets it ignore this, and all that it starts."""

settings.register_profile("tests", deadline=None)  # other programs may use the processors
settings.load_profile("tests")

if os.geteuid() == 0:
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


@pytest.fixture
def between_hosts(request: pytest.FixtureRequest) -> bool:
    """Whether every `wilkins run` is one over hosts."""
    return bool(request.config.getoption("--between-hosts"))


@pytest.fixture
def flow(tmp_path: Path) -> Workflow:
    """An empty workflow, in a folder of its own."""
    return Workflow(tmp_path)


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def torch_device(request: pytest.FixtureRequest) -> str:
    """Where a test's tensors are: in main memory, and on a GPU where there is one (``pytest -m gpu``)."""
    if request.param != "cpu" and not importlib.import_module("torch").cuda.is_available():
        pytest.skip("there is no GPU that torch can use")
    return str(request.param)


@cache
def missing(thing: str) -> bool:
    """Whether the machine lacks a thing: a program, ``python:MODULE``, ``system-python:MODULE``,
    ``header:FILE``, ``build:PATH`` (what a tool brings into the checkout), or a right.

    Rights are those of ``root``, to make a ``tmpfs`` that nobody else sees, and ``namespaces`` as a host has. ``hooks``
    and ``newer-hdf5`` are what `tools/hooks` and `tools/newer-hdf5` bring. ``ucx-headers``: the layer was built with
    those of UCX; ``ucx``: and finds its library.
    """
    if thing in ("ucx", "ucx-headers"):
        from wilkins.doctor.machine import fabric_facts

        facts = fabric_facts()
        return "headers" in facts.problem or (thing == "ucx" and not facts.ucx)
    if thing == "newer-hdf5":
        return not NEWER.exists()
    if thing == "hooks":
        return not LIBRARY.exists()
    if thing == "root":
        return os.geteuid() != 0
    if thing == "tmpfs":
        made = [*OWN_MOUNTS, "mount", "-t", "tmpfs", "none", "/mnt"]
        return shutil.which("unshare") is None or subprocess.run(made, check=False, capture_output=True).returncode != 0
    if thing == "namespaces":
        made = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "ip", "link"]
        return shutil.which("unshare") is None or subprocess.run(made, check=False, capture_output=True).returncode != 0
    kind, _, name = thing.rpartition(":")
    if kind == "file":
        return not Path(name).exists()
    if kind == "build":
        return not Path(__file__).parent.parent.joinpath("build", name).exists()
    if kind == "header":
        return not Path("/usr/include", name).exists()
    if kind == "python":
        return importlib.util.find_spec(name) is None
    if kind == "system-python":
        found = subprocess.run(
            [SYSTEM_PYTHON, "-c", f"import importlib.util as u; raise SystemExit(u.find_spec('{name}') is None)"],
            check=False,
        )
        return found.returncode != 0
    return shutil.which(name) is None


def segments_of_mpi() -> set[Path]:
    """Shared memory of MPI jobs that no process maps any more."""
    found = set(Path("/dev/shm").glob("mpich_shm_*")) | set(Path("/dev/shm").glob("vader_segment.*"))
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            text = maps.read_text(errors="replace")
            found = {segment for segment in found if str(segment) not in text}
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make test-all` is cut into."""
    parser.addoption("--shard", metavar="K/N", help="run the K-th of N parts of the tests, each about as long")
    parser.addoption(
        "--between-hosts",
        action="store_true",
        help="let every `wilkins run` be one over hosts with a rank each, all of them this machine, and leave out the "
        "tests marked one_host",
    )


def pytest_configure(config: pytest.Config) -> None:
    """What the processes of a test run share; and what MPI has in shared memory before jobs are killed."""
    if config.getoption("--between-hosts"):
        os.environ.update(BETWEEN_HOSTS)
    if not hasattr(config, "workerinput"):
        programs_folder()
        config.stash[BEFORE] = segments_of_mpi()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what killed MPI jobs have left."""
    before = config.stash.get(BEFORE, None)
    if before is not None:
        for segment in segments_of_mpi() - before:
            segment.unlink(missing_ok=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which tests are nightly by their case, and of all tests, the shard asked for.

    Neighbours take about as long as each other, so shards are dealt like cards.
    """
    found: dict[str, set[str]] = {}
    for item in items:
        if usual := item.get_closest_marker("usual"):
            case = case_of(item)
            found.setdefault(item.nodeid.partition("[")[0], set(usual.args)).discard(case)
            if case not in usual.args:
                item.add_marker(pytest.mark.nightly)
            if case in usual.kwargs.get("also_between_hosts", ()):
                item.add_marker(pytest.mark.also_between_hosts)
    unknown = [f"{test}: {', '.join(cases)}" for test, cases in found.items() if cases]
    if unknown and config.args_source == pytest.Config.ArgsSource.TESTPATHS:
        raise pytest.UsageError("marked as usual, but there is no such case: " + "; ".join(unknown))
    if shard := config.getoption("--shard"):
        number, _, of = shard.partition("/")
        if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
            raise pytest.UsageError(f"--shard {shard}: give the number of a shard and how many there are, as in 2/4")
        config.hook.pytest_deselected(items=[item for k, item in enumerate(items) if k % int(of) != int(number) - 1])
        items[:] = items[int(number) - 1 :: int(of)]


def case_of(item: pytest.Item) -> str:
    """Of a test with many cases, which one this is."""
    return item.name.partition("[")[2].removesuffix("]")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose needs are not met, and say so; with WILKINS_TEST_ALL set, that is a failure.

    Between hosts, those are left out that show what differs there for a reason.
    """
    for mark in item.iter_markers("one_host") if item.config.getoption("--between-hosts") else ():
        reason, *cases = mark.args
        if not cases or case_of(item) in cases:
            pytest.skip(f"on one host only: {reason}")
    for mark in item.iter_markers("needs"):
        absent = [thing for thing in mark.args if missing(thing)]
        if absent:
            message = f"needs {', '.join(absent)}"
            if os.environ.get("WILKINS_TEST_ALL"):
                pytest.fail(f"{message}: nothing may be left out on this machine (WILKINS_TEST_ALL is set)")
            pytest.skip(message)
