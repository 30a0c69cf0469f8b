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

NETCDF4 = py("""
import netCDF4
for k in range(N):
    with netCDF4.Dataset(f"plt{k:04d}.nc", "w") as file:
        file.createDimension("n", 9)
        file.createVariable("x", "f8", ("n",))[:] = range(k, k + 9)
""")

DATABASES = py("""
import sqlite3
for k in range(N):
    base = sqlite3.connect(f"plt{k:04d}.dat")
    base.execute("create table numbers(x)")
    base.executemany("insert into numbers values(?)", [(k * x,) for x in range(100)])
    base.commit()
    base.close()
""")

READS = py("""
for k in range(N):
    get(f"plt{k:04d}.dat")
""")

READS5 = py("""
for k in range(N):
    get5(f"plt{k:04d}.h5")
""")
