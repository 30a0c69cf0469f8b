import xarray

with xarray.open_mfdataset("plt*.nc", combine="nested", concat_dim="time") as data:
    print(dict(data.sizes), float(data.x.mean()), data.x.sum(("lat", "lon")).values)
