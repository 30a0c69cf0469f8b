"""The test suites: where they come from, how each is run, and under which names it creates files."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTEST = ("-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "recorder", "--tb=short")
"""Without the settings of a folder around: an environment may lie within a checkout."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A library's own tests."""

    name: str
    package: str
    """Its distribution, whose version is reported."""
    share: float
    """Of what passes on files, the least that must pass in memory."""
    limit: float
    """Seconds that one way of running it may take."""
    arguments: Callable[[Path, Path, bool], list[str]]
    """Of Python, given its working folder, that for temporary files, and whether to run the short form."""
    fetch: Callable[[Path], None] = lambda _: None
    """Gets into a folder what the installed package lacks: a folder `test`, of which it runs in a copy."""
    relative: tuple[str, ...] = ()
    """Patterns of files that it creates in its working folder."""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def version(self) -> str:
        """Of the installed library."""
        return importlib.metadata.version(self.package)


def _folder_of(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"{module} is not installed here, so its tests cannot be run")
    return Path(spec.origin).parent


H5PY_SHORT = (
    "test_file.py",
    "test_file2.py",
    "test_h5f.py",
    "test_group.py",
    "test_file_image.py",
    "test_vds",
)
"""Files of h5py's suite that open, reopen, look at and remove files in the most ways."""


def _h5py(_work: Path, scratch: Path, short: bool) -> list[str]:
    package = _folder_of("h5py")
    tests = [str(package / "tests" / name) for name in H5PY_SHORT] if short else [str(package / "tests")]
    return [*PYTEST, f"--rootdir={package}", f"--basetemp={scratch / 'pytest'}", "--no-network", *tests]


def _netcdf4(work: Path, scratch: Path, short: bool) -> list[str]:
    chosen = (
        ["test_atts.py", "test_dims.py", "test_grps.py"] if short else sorted(p.name for p in work.glob("test_*.py"))
    )
    return [*PYTEST, f"--rootdir={work}", f"--basetemp={scratch / 'pytest'}", *chosen]


def _pytables(_work: Path, _scratch: Path, short: bool) -> list[str]:
    parts = ["tables.tests.test_create", "tables.tests.test_links", "tables.tests.test_basics"] if short else []
    return [str(HERE / "recorder.py"), "tables.tests.test_suite", *parts]


def _fetch_netcdf4(folder: Path) -> None:
    """Get the source distribution, which alone has the tests.

    pip asks it for its metadata. It makes that only where it finds the headers of the C libraries, of which it reads no
    more than what is written here.
    """
    include = folder / "headers" / "include"
    include.mkdir(parents=True)
    (include / "netcdf.h").write_text("nc_inq_compound\n")
    (include / "hdf5.h").touch()
    (include / "H5public.h").write_text('#define H5_VERS_INFO "HDF5 library version: 1.14.6"\n')
    where = {"NETCDF4_DIR": str(include.parent), "HDF5_DIR": str(include.parent)}
    wanted = f"netCDF4=={importlib.metadata.version('netCDF4')}"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "netCDF4",
            wanted,
            "-d",
            folder,
        ],
        env={**os.environ, **where},
        check=True,
        timeout=600,
    )
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "source", filter="data")
    shutil.move(next((folder / "source").glob("*/test")), folder / "test")


SUITES = {
    suite.name: suite
    for suite in (
        Suite("h5py", "h5py", 0.99, 1800, _h5py),
        Suite("netcdf4", "netCDF4", 0.95, 1800, _netcdf4, _fetch_netcdf4, ("tst_*.nc",), (("NO_NET", "1"),)),
        Suite("pytables", "tables", 0.95, 7200, _pytables),
    )
}
