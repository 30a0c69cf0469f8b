import sys

import numpy as np
import openpmd_api as io

series = io.Series(sys.argv[1], io.Access.create)
for step in range(4):
    iteration = series.write_iterations()[step] if sys.argv[2] == "linear" else series.iterations[step]
    field = iteration.meshes["E"]["x"]
    field.reset_dataset(io.Dataset(np.dtype("float64"), [5]))
    values = np.arange(5.0) * (step + 1)
    field.store_chunk(values)
    iteration.close()
series.close()
