import numpy as np
import uproot

for step in range(4):
    with uproot.recreate(f"x{step}.root") as f:
        f["events"] = {"energy": np.arange(5.0) + 10 * step}
