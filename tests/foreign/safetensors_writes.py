import numpy as np
from safetensors.numpy import save_file

for step in range(4):
    save_file({"w": np.full((10, 100), step, "f4")}, f"x{step}.safetensors", metadata={"step": str(step)})
