import xarray as xr

for k in range(4):
    with xr.open_dataset(f"plt{k:04d}.nc") as data:
        print(k, {name: float(one.sum()) for name, one in sorted(data.data_vars.items())}, data.attrs)
