import sys

import openpmd_api as io

series = io.Series(sys.argv[1], io.Access.read_only)
for index in series.iterations:
    iteration = series.iterations[index]
    field = iteration.meshes["E"]["x"][:]
    series.flush()
    print(index, list(field))
    iteration.close()
