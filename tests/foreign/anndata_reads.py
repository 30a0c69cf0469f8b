import anndata

for step in range(4):
    cells = anndata.read_h5ad(f"cells{step}.h5ad")
    print(step, cells.obs.to_dict("list"), cells.X.tolist(), {name: one.sum() for name, one in cells.layers.items()})
    print({name: int(one) for name, one in cells.uns.items()})
