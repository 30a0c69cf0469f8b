"""Spack's recipe. In a checkout: `spack repo add tools/spack`, then `spack dev-build py-wilkins@main`."""
# ruff: noqa: F403, F405

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyWilkins(PythonPackage):
    """Couples unmodified HDF5 programs in memory, from one workflow file."""

    license("BSD-3-Clause")

    version("main")

    depends_on("cxx", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-scikit-build-core@1:", type="build")
    depends_on("py-h5py@3.8:", type="run")
    depends_on("py-mpi4py@4:", type="run")
    depends_on("py-networkx@3:", type="run")
    depends_on("py-numpy@1.24:", type="run")
    depends_on("py-pyyaml@6:", type="run")
    depends_on("py-rich@13:", type="run")
