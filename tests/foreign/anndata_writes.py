import anndata
import numpy as np
import pandas as pd

for step in range(4):
    cells = pd.DataFrame({"size": np.arange(6) + step}, index=[f"cell{number}" for number in range(6)])
    genes = pd.DataFrame(index=list("abc"))
    anndata.AnnData(np.arange(18.0).reshape(6, 3) + step, cells, genes).write_h5ad(f"cells{step}.h5ad")
