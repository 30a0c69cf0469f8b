"""With --encrypt nobody on the line reads what crosses between hosts, and nobody changes it unnoticed.

``WILKINS_PROFILE`` with a profile of ``encrypt: true`` lets all other tests over hosts encrypt, too.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import pseudo
from hosts.rig import NEEDS, Rig

from support.running import MPIEXEC, WILKINS, Finished, must_run, run_tree, write_program
from wilkins.errors import ResourceError
from wilkins.launch.hosts import encryption
from wilkins.transport.board import native_library

CIPHER = native_library().with_name(encryption.CIPHER)
"""It is there where OpenSSL was."""

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.xdist_group("hosts"),
    pytest.mark.needs(f"file:{CIPHER}"),
]
ON_RIG = pytest.mark.needs("root", "namespaces", *NEEDS)

SECRET = b"the answer of all questions is: "
WRITE = """#!{python}
import h5py, numpy
for step in range(6):
    with h5py.File(f"confidential-{{step}}.h5", "w") as file:
        file["x"] = numpy.frombuffer({secret!r} * 100_000, numpy.uint8).reshape(-1, 32)
"""
READ = """#!{python}
import h5py, numpy
from wilkins.transport import steps
number = 0
for number, name in enumerate(steps.names(), 1):
    with h5py.File(name) as file:
        part = file["x"][:50_000] if number % 2 else file["x"][50_000:]
        assert bytes(part[-1]) == {secret!r} and (part == part[0]).all()
print("read", number)
"""
WORKFLOW = """
tasks:
  - {{func: ./write.py, outports: [{{filename: "confidential-*.h5"{port}}}]}}
  - {{func: ./read.py, inports: [{{filename: "confidential-*.h5"}}]}}
"""


@contextlib.contextmanager
def listening(line: socket.socket) -> Iterator[bytearray]:
    """What crosses a line meanwhile."""
    heard = bytearray()
    over = threading.Event()

    def listen() -> None:
        line.settimeout(0.2)
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                while True:
                    heard.extend(line.recv(1 << 17))

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join()
        line.close()


def run(rig: Rig, folder: Path, *options: str, port: str = "") -> Finished:
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(folder / name, text.format(python=sys.executable, secret=SECRET))
    (folder / "workflow.yaml").write_text(WORKFLOW.format(port=port))
    words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", *options, "workflow.yaml"]
    return run_tree(rig.on("node0", *words, folder=folder), 60, folder)


@ON_RIG
def test_who_listens_on_the_line_hears_nothing_of_the_steps(tmp_path: Path) -> None:
    """Neither of those that cross whole, nor of what is read of larger ones; without --encrypt all of it."""
    with Rig(2) as rig:
        for options in ((), ("--encrypt",)):
            folder = tmp_path / "-".join(["run", *options])
            folder.mkdir()
            with listening(rig.heard("node1")) as heard:
                done = run(rig, folder, *options)
            assert done.code == 0, done.err
            assert "read 6" in done.out
            assert len(heard) > 3_000_000
            told = {word: word in heard for word in (SECRET, SECRET[:8], b"confidential-")}
            assert set(told.values()) == {not options}, told


@ON_RIG
@pytest.mark.nightly
@pytest.mark.parametrize(
    "port", ["", ", checked: true", ', compress: [{dset: "*"}]'], ids=["", "checked", "compressed"]
)
def test_who_changes_what_crosses_is_found(tmp_path: Path, port: str) -> None:
    """A machine in the middle changes a bit now and then, and what it damages is asked for again; or always."""
    for flips, code in ((60, 0), (1, 1)):
        with Rig(2) as rig:
            rig.delay("node1", 0.0, flips)
            folder = tmp_path / str(flips)
            folder.mkdir()
            done = run(rig, folder, "--encrypt", port=port)
            if "compress" in port:  # many steps in few frames
                assert done.code in (0, 1)
            else:
                assert done.code == code, done.err
            assert done.code or "read 6" in done.out
            assert "Traceback" not in done.err


@pytest.mark.parametrize("pieces", [pytest.param(1, marks=pytest.mark.nightly), 10])
def test_values_are_right(tmp_path: Path, pieces: int) -> None:
    """Whole steps, and parts of them that a reader brings by itself."""
    pseudo.programs(tmp_path)
    workflow = f"""
        tasks:
          - {{func: ./write.py, args: ["f{{}}.h5", 12, 3000000, 0], outports: [{{filename: "f*.h5"}}]}}
          - {{func: ./read.py, args: [0, {pieces}], inports: [{{filename: "f*.h5"}}]}}
    """
    summary = pseudo.run(tmp_path, workflow, "a:1,b:1", "--encrypt")
    assert summary["channels"][0]["read"] == 12


def test_a_run_that_goes_on_with_one_that_encrypts_does_so_too(tmp_path: Path) -> None:
    """The command that a run shows at its end, for who wants to go on with it, names no option of it."""
    pseudo.programs(tmp_path)
    write_program(
        tmp_path / "fails.py",
        f"#!{sys.executable}\nimport os, sys\nfrom wilkins.transport import steps\n"
        "names = list(steps.names())\nsys.exit(not os.path.exists('go'))\n",
    )
    (tmp_path / "workflow.yaml").write_text("""
        tasks:
          - {func: ./write.py, args: ["f{}.h5", 3, 1000, 0], outports: [{filename: "f*.h5"}], restart: {files: none}}
          - {func: ./fails.py, inports: [{filename: "f*.h5"}]}
    """)
    variables = {"WILKINS_RSH": str(pseudo.HERE)}
    first = run_tree([*WILKINS, "run", "--hosts", "a:1,b:1", "--encrypt", "workflow.yaml"], 60, tmp_path, variables)
    assert first.code == 1 and "to go on with this run" in first.err, first.err
    (tmp_path / "go").touch()
    words = [*WILKINS, "run", "--resume", "latest", "--hosts", "c:1,d:1"]
    without = tmp_path / "elsewhere" / "libwilkins.so"
    without.parent.mkdir()
    shutil.copy(native_library(), without)
    refused = run_tree(words, 60, tmp_path, {**variables, "WILKINS_LIBRARY": str(without)})
    assert refused.code == 3 and "cannot encrypt: there is no" in refused.err, refused.err
    done = run_tree(words, 60, tmp_path, variables)
    assert done.code == 0, done.err
    summary = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    assert {one["fabric_reason"] for one in summary["crossings"]} == {"the run encrypts, and UCX does not"}


def test_nothing_of_openssl_can_be_seen_from_outside() -> None:
    """And a program's own is not asked for."""
    shown = must_run(CIPHER.parent, "nm", "--dynamic", "--defined-only", CIPHER).split()
    assert shown[2::3] == ["wilkins_cipher"]
    dynamic = must_run(CIPHER.parent, "readelf", "--dynamic", "--wide", CIPHER)
    assert set(re.findall(r"\(NEEDED\).*\[(\w+)", dynamic)) <= {"libc", "libdl", "libpthread", "ld"}


def test_a_host_that_cannot_encrypt_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    library = tmp_path / "elsewhere" / "libwilkins.so"
    library.parent.mkdir()
    shutil.copy(native_library(), library)
    (tmp_path / "workflow.yaml").write_text("""
        tasks:
          - {func: ./write.py, args: ["f{}.h5", 2, 1000, 0], outports: [{filename: "f*.h5"}]}
          - {func: ./read.py, args: [0], inports: [{filename: "f*.h5"}]}
    """)
    words = [*WILKINS, "run", "--hosts", "a:1,b:1", "--encrypt", "workflow.yaml"]
    environment = {"WILKINS_RSH": str(pseudo.HERE), "WILKINS_LIBRARY": str(library)}
    ended = run_tree(words, 60, tmp_path, environment)
    assert ended.code == 3
    assert "cannot encrypt: there is no" in ended.err
    assert "libssl-dev" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("launcher", ["srun", "blaunch", "pbs_tmrsh"])
def test_a_launcher_that_carries_the_key_in_clear_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    """But for the host on which the run is started, which needs none; and with another launcher."""
    write_program(tmp_path / launcher, "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("FLUX_URI", "SLURM_JOB_ID", "PBS_NODEFILE", "LSB_MCPU_HOSTS", "WILKINS_RSH"):
        monkeypatch.delenv(variable, raising=False)
    encryption.require(["node1"])
    variable = {"srun": "SLURM_JOB_ID", "blaunch": "LSB_MCPU_HOSTS", "pbs_tmrsh": "PBS_NODEFILE"}[launcher]
    monkeypatch.setenv(variable, "1")
    encryption.require(["localhost"])
    with pytest.raises(ResourceError, match=rf"{launcher} starts the run on node1.*WILKINS_RSH=ssh"):
        encryption.require(["localhost", "node1"])
    monkeypatch.setenv("WILKINS_RSH", "ssh")
    encryption.require(["localhost", "node1"])


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", MPIEXEC, *NEEDS)
def test_one_mpi_job_is_refused(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text("""
        tasks:
          - {func: ./write.py, args: ["f{}.h5", 2, 1000, 0], outports: [{filename: "f*.h5"}]}
          - {func: ./read.py, args: [0], inports: [{filename: "f*.h5"}]}
    """)
    with Rig(2) as rig:
        words = [
            MPIEXEC,
            "-hosts",
            "node0,node1",
            "-ppn",
            "1",
            "-n",
            "2",
            *WILKINS,
            "run",
            "--encrypt",
            "workflow.yaml",
        ]
        ended = run_tree(rig.on("node0", *words, folder=tmp_path), 60, tmp_path)
    assert ended.code == 2
    assert "--encrypt: the hosts of one MPI job" in ended.err + ended.out


def test_ucx_is_refused(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text("tasks: [{func: ./write.py, args: [f.h5, 1, 8, 0]}]")
    words = [*WILKINS, "run", "--hosts", "a:1", "--encrypt", "--fabric", "ucx", "workflow.yaml"]
    done = run_tree(words, 30, tmp_path, {"WILKINS_RSH": str(pseudo.HERE)})
    assert done.code == 3, done.err
    assert "WILKINS_FABRIC (--fabric) asks for UCX, which does not encrypt; leave out one of both" in done.err
