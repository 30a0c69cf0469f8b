"""Heat on a plane, by Dedalus on all ranks: its analysis fills a file after the other, each in two writes."""

import sys

import dedalus.public as d3
import numpy as np

coords = d3.CartesianCoordinates("x", "y")
dist = d3.Distributor(coords, dtype=np.float64)
bases = [d3.RealFourier(coords[name], size=16, bounds=(0, 2 * np.pi)) for name in "xy"]
u = dist.Field(name="u", bases=bases)
x, y = dist.local_grids(*bases)
u["g"] = np.sin(x) * np.cos(y)
problem = d3.IVP([u], namespace={"u": u})
problem.add_equation("dt(u) - 0.1*lap(u) = 0")
solver = problem.build_solver(d3.RK222)
solver.stop_iteration = 15
snapshots = solver.evaluator.add_file_handler("snapshots", iter=2, max_writes=2, parallel=sys.argv[1])
snapshots.add_task(u, name="u")
snapshots.add_task(d3.Integrate(u * u), name="energy")
while solver.proceed:
    solver.step(0.1)
