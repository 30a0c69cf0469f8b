import ase.io
from ase.build import molecule

for step in range(4):
    atoms = molecule("H2O")
    atoms.translate([step, 0.5 * step, 0])
    ase.io.write(f"s{step}.traj", atoms)
