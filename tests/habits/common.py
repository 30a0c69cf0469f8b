"""Programs that many habits share: those that write a file for each step, and those that read them by name."""

from __future__ import annotations

from habits.rig import c, py, sh

BYTES = py("""
for k in range(N):
    put(f"plt{k:04d}.dat", k)
""")

HDF5 = py("""
for k in range(N):
    put5(f"plt{k:04d}.h5", k)
""")

C = c("""
    for (int k = 0; k < N; k++) {
        make(k);
        FILE* file = fopen(name_of(k), "w");
        must(file != NULL, "fopen");
        fwrite(content, 1, length, file);
        fclose(file);
    }
""")

DRAFTS = sh("""
for k in $(steps); do
    text $k > draft
    mv draft plt000$k.dat
done
""")

READS = py("""
for k in range(N):
    get(f"plt{k:04d}.dat")
""")

READS5 = py("""
for k in range(N):
    get5(f"plt{k:04d}.h5")
""")
