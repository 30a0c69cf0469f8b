"""Adds rows, and a table of their sums."""

import pandas as pd

for step in range(4):
    with pd.HDFStore(f"rows{step}.h5", "a") as store:
        store.append("rows", pd.DataFrame({"x": [9.0], "name": ["more"]}))
        store.put("sums", store["rows"].groupby("name").sum())
