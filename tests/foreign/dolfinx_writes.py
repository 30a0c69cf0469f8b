import numpy as np
from dolfinx.fem import Function, FunctionSpace
from dolfinx.io import XDMFFile
from dolfinx.mesh import create_unit_square
from mpi4py import MPI

mesh = create_unit_square(MPI.COMM_WORLD, 3, 3)
u = Function(FunctionSpace(mesh, ("Lagrange", 1)))
for step in range(3):
    u.interpolate(lambda x, step=step: np.full(x.shape[1], float(step)) + x[0])
    with XDMFFile(mesh.comm, f"x{step}.xdmf", "w") as file:
        file.write_mesh(mesh)
        file.write_function(u)
