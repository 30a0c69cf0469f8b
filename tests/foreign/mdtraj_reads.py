import mdtraj

for part in range(3):
    trajectory = mdtraj.load(f"traj{part}.h5")
    print(part, trajectory.n_frames, trajectory.n_atoms, trajectory.xyz.round(3).tolist())
