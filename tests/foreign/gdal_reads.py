from osgeo import gdal

gdal.UseExceptions()
for step in range(4):
    data = gdal.Open(f'HDF5:"plt{step:04d}.h5"://x')
    print(step, data.ReadAsArray().tolist())
