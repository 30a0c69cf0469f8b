from openpmd_viewer import OpenPMDTimeSeries

series = OpenPMDTimeSeries("diags/hdf5", backend="h5py")
for iteration in series.iterations:
    field, info = series.get_field("E", coord="r", iteration=iteration)
    print(iteration, field.shape, abs(field).sum().round(6))
