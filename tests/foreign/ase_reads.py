import ase.io

for step in range(4):
    print(step, ase.io.read(f"s{step}.traj").get_center_of_mass())
