import pandas as pd

for step in range(4):
    with pd.HDFStore(f"rows{step}.h5", "w") as store:
        store.append("rows", pd.DataFrame({"x": [1.5 * step, 2.5], "name": ["a", "b"]}), min_itemsize=9)
