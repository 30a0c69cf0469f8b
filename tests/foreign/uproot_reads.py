import uproot

for step in range(4):
    with uproot.open(f"x{step}.root") as f:
        print(step, f["events/energy"].array(library="np"))
