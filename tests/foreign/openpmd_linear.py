import sys

import openpmd_api as io

series = io.Series(sys.argv[1], io.Access.read_linear)
for iteration in series.read_iterations():
    field = iteration.meshes["E"]["x"][:]
    series.flush()
    print(iteration.iteration_index, list(field))
