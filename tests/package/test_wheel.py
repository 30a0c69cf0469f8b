"""A wheel built from the tree holds each file once, depends on an old libc alone, and works away from the checkout."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from programs.build import build

from support.running import must_run
from wilkins.plan import glibc
from wilkins.plan.program import read_elf

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "flow", "transport", "tasks", "workflows")
SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "wilkins", *FOLDERS)

pytestmark = pytest.mark.nightly

LIBRARIES = ("libwilkins.so", "libwilkins-record.so")
MACHINES = ("x86_64", "aarch64")
LIBC = {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of the tree, and a wheel built from that sdist; or those that `tools/release` has made."""
    if given := os.environ.get("WILKINS_TEST_DISTRIBUTIONS"):
        return Path(given)
    tree, made = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(source, tree / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy2(source, tree / name)
    fortified = "CXXFLAGS=-D_FORTIFY_SOURCE=2 -Wp,-D_FORTIFY_SOURCE=2"  # as Ubuntu and Fedora compile
    must_run(
        tree, "env", fortified, sys.executable, "-m", "build", "--no-isolation", "--outdir", made, ".", timeout=300
    )
    return made


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    """The wheel for this machine."""
    [path] = distributions.glob(f"*_{platform.machine()}.whl")
    return path


@pytest.fixture(scope="module")
def portable(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By processor: a folder with what is in the wheel that `tools/wheel` or `tools/release` has made."""
    if not (given := os.environ.get("WILKINS_TEST_DISTRIBUTIONS")):
        given = str(tmp_path_factory.mktemp("dist"))
        must_run(ROOT, sys.executable, "tools/wheel", "--out", given, timeout=800)
    folders = {}
    for machine in MACHINES:
        folders[machine] = tmp_path_factory.mktemp(machine)
        [path] = Path(given).glob(f"*-py3-none-manylinux_2_28_{machine}.whl")
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folders[machine])
    return folders


@pytest.fixture(scope="module", params=LIBRARIES)
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A native library, taken out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"wilkins/transport/{request.param}", tmp_path_factory.mktemp("library")))


@pytest.mark.timeout(400)
def test_wheel_holds_each_file_once(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    held = {name for name in names if not name.startswith("wilkins-") and not name.endswith("/")}
    held.discard("wilkins/transport/libwilkins-cipher.so")  # it is there where OpenSSL is
    expected = {f"wilkins/transport/{name}" for name in LIBRARIES}
    for folder, target in (("wilkins", "wilkins"), *((name, f"wilkins/{name}") for name in FOLDERS)):
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT / folder)
            if (
                path.is_file()
                and "__pycache__" not in relative.parts
                and not {"native", "conf.py"} & set(relative.parts)
            ):
                expected.add(f"{target}/{relative}")
    expected = {name for name in expected if not name.endswith(".so") or Path(name).name in LIBRARIES}
    assert held == expected


def test_sdist_is_a_checkout(distributions: Path) -> None:
    """The links that let a checkout be imported are links in the sdist too."""
    [path] = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        links = {member.name.split("/", 1)[1]: member.linkname for member in archive.getmembers() if member.issym()}
    assert {name: to for name, to in links.items() if name.startswith("wilkins/")} == {
        f"wilkins/{name}": f"../{name}" for name in FOLDERS
    }


def test_library_needs_libc_alone(library: Path) -> None:
    dynamic = must_run(library.parent, "readelf", "--dynamic", "--wide", library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    assert {name for name in needed if not name.startswith("ld-linux")} <= LIBC
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic)


def test_library_shows_no_cxx(library: Path) -> None:
    """A C++ symbol seen outside would take the place of the program's own."""
    symbols = must_run(library.parent, "nm", "--dynamic", "--defined-only", library)
    names = [line.split()[-1] for line in symbols.splitlines()]
    assert "H5Fflush" in names
    assert not [name for name in names if name.startswith(("_Z", "__cxa", "__gxx", "_Unwind", "_ITM"))]


@pytest.mark.needs("python:ziglang")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LIBRARIES)
def test_portable_wheels_need_glibc_2_28_alone(portable: dict[str, Path], name: str) -> None:
    """They show the same names on each processor, and copy by the C library's functions, not by Zig's."""
    shown = {}
    for machine, folder in portable.items():
        library = folder / "wilkins" / "transport" / name
        elf = read_elf(library)
        assert elf
        assert () < glibc.newest(elf.versions) <= (2, 28)
        test_library_needs_libc_alone(library)
        test_library_shows_no_cxx(library)
        symbols = must_run(folder, "readelf", "--dyn-syms", "--wide", library).splitlines()
        undefined = {
            re.sub("@.*", "", line.split()[7]) for line in symbols if " UND " in line and len(line.split()) > 7
        }
        assert {"memcpy", "memmove", "memset"} <= undefined
        header = must_run(folder, "readelf", "--file-header", library)
        assert ("AArch64" in header) == (machine == "aarch64")
        shown[machine] = set(
            must_run(folder, "nm", "--dynamic", "--defined-only", "--format=just-symbols", library).split()
        )
    assert shown["x86_64"] == shown["aarch64"]


@pytest.mark.needs("python:ziglang", "g++")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LIBRARIES)
def test_programs_unwind_through_the_layer_of_a_portable_wheel(portable: dict[str, Path], name: str) -> None:
    """It was linked with another unwinder than the one by which programs' threads are canceled."""
    folder = portable[platform.machine()]
    program = build("guest/unwound.cpp", "g++", "-std=c++17", "-pthread")
    library = folder / "wilkins" / "transport" / name
    assert must_run(folder, "env", f"LD_PRELOAD={library}", program) == must_run(folder, program)


@pytest.mark.timeout(400)
def test_quickstart_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    must_run(tmp_path, python, "-m", "pip", "install", "--quiet", f"{wheel}[mpi]", timeout=300)
    folder = tmp_path / "quickstart"
    ignore = shutil.ignore_patterns("*.csv", "*.h5", "wilkins-runs")
    shutil.copytree(ROOT / "examples" / "quickstart", folder, ignore=ignore)
    bare = ("/usr/bin/env", "-i", f"PATH={environment / 'bin'}:/usr/bin:/bin")
    printed = must_run(folder, *bare, "wilkins", "run", "workflow.yaml")
    assert "step 4" in printed
    assert (folder / "cuts.csv").stat().st_size > 0
    assert not list(folder.rglob("*.h5"))
    assert 'filename: "heat-*.h5"' in must_run(folder, *bare, "wilkins", "record", "--", "producer.py")
    ready = tmp_path / "ready"
    ready.mkdir()
    must_run(ready, *bare, "wilkins", "run", "--builtin", "fanout", "--set", "size=32", "--set", "steps=3", timeout=120)
    assert sorted(path.name for path in (ready / "statistics").iterdir())[:2] == ["u-moments.csv", "u-moments.json"]
    assert {path.name for path in ready.iterdir()} == {"spectrum.csv", "statistics", "pictures", "wilkins-runs"} | {
        ".stdout",
        ".stderr",
    }
