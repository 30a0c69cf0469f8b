"""Reads each file whole, and writes it anew."""

import anndata

for step in range(4):
    cells = anndata.read_h5ad(f"cells{step}.h5ad")
    cells.layers["scaled"] = cells.X / cells.X.sum()
    cells.uns["steps"] = step
    cells.write_h5ad(f"cells{step}.h5ad", compression="gzip")
