import pandas as pd

for step in range(4):
    with pd.HDFStore(f"rows{step}.h5", "r") as store:
        print(step, *(store[name].to_csv() for name in sorted(store)))
