"""Marks cells by values of genes, in the files as they lie there."""

import anndata

for step in range(4):
    cells = anndata.read_h5ad(f"cells{step}.h5ad", backed="r+")
    cells.obs["large"] = cells.X[:, 0] > 7
    cells.X[0] = [step, step, step]
    cells.write_h5ad()
    cells.file.close()
