"""Light goes round a sharp bend of a waveguide (Meep's classic), on any number of ranks; Debian's Meep under Open MPI.

Meep writes the field E_z every four time units: waveguide-ez-000004.00.h5, ..., with parallel HDF5.
"""

import meep as mp

cell = mp.Vector3(16, 16)
dielectric = mp.Medium(epsilon=12)
bend = [
    mp.Block(mp.Vector3(12, 1), center=mp.Vector3(-2, -3.5), material=dielectric),
    mp.Block(mp.Vector3(1, 12), center=mp.Vector3(3.5, 2), material=dielectric),
]
light = mp.Source(
    mp.ContinuousSource(wavelength=2 * 11**0.5, width=20),
    component=mp.Ez,
    center=mp.Vector3(-7, -3.5),
    size=mp.Vector3(0, 1),
)
simulation = mp.Simulation(cell_size=cell, geometry=bend, sources=[light], resolution=10, boundary_layers=[mp.PML(1)])
simulation.run(mp.at_every(4, mp.output_efield_z), until=200)
