"""Programs that go on until there is a file `enough`: one writes steps, the others read them."""

WRITE = """\
import h5py, pathlib, time
for step in range(10000):
    with h5py.File(f"step{step}.h5", "w") as file:
        file["x"] = [step]
    print("wrote", step, "<b>", flush=True)
    if pathlib.Path("enough").exists():
        break
    time.sleep(0.05)
"""
READ = """\
import h5py, itertools
for step in itertools.count():
    try:
        h5py.File(f"step{step}.h5").close()
    except OSError:
        break
"""
