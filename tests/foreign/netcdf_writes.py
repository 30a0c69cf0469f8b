import netCDF4
import numpy as np

for step in range(4):
    with netCDF4.Dataset(f"plt{step:04d}.nc", "w") as f:
        f.createDimension("time", None)
        f.createDimension("lat", 3)
        f.createDimension("lon", 4)
        for name, values in (("lat", [-30.0, 0, 30]), ("lon", [0.0, 90, 180, 270])):
            axis = f.createVariable(name, "f8", (name,))
            axis.units = {"lat": "degrees_north", "lon": "degrees_east"}[name]
            axis[:] = values
        time = f.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = [step]
        f.createVariable("x", "f8", ("time", "lat", "lon"))[0] = np.arange(12.0).reshape(3, 4) * (step + 1)
