"""Channels at one end, unmodified HDF5 programs at the other: serial, parallel, PyTables."""

from __future__ import annotations

import pytest
from channels.programs import PUBLISH, Tasks
from programs.build import build, parallel_c, serial_c


@pytest.mark.needs("h5cc", "python:tables")
def test_unmodified_programs_read_what_is_published(tasks: Tasks) -> None:
    tasks.write("write.py", PUBLISH)
    tasks.write(
        "pytables.py",
        """
        import sys, tables
        for step in range(int(sys.argv[1])):
            with tables.open_file(sys.argv[2] % step) as file:
                assert file.root.rows[8, 11] == step * 1e6 + 8011 and file.root.g.tag.read() == [b"tag"]
        print("read", step + 1)
        """,
    )
    tasks.write(
        "h5.py",
        """
        import sys, h5py
        for step in range(int(sys.argv[1])):
            with h5py.File(sys.argv[2] % step) as file:
                assert file["rows"][8, 11] == step * 1e6 + 8011 and file["g/text"].asstr()[()] == "grüße"
                assert file["rows"].id.get_offset() % 8 == 0
        print("read", step + 1)
        """,
    )
    args, port = "args: ['6', 'x%d.h5']", "[{filename: 'x*.h5'}]"
    c_args = "args: ['x%d.h5', '6']"
    tasks.run(
        f"func: write.py, {args}, outports: {port}",
        f"func: pytables.py, {args}, inports: {port}",
        f"func: h5.py, {args}, inports: {port}",
        f"name: shared, func: {build('ser_read.c', *serial_c(static=False))}, {c_args}, inports: {port}",
        f"name: static, func: {build('ser_read.c', *serial_c(static=True))}, {c_args}, inports: {port}",
    )
    for task in ("pytables", "h5"):
        assert tasks.said(task) == ["read 6"]
    for task in ("shared", "static"):
        assert tasks.said(task)[-1].startswith("rank 0 read 6 steps")
    assert not list(tasks.folder.glob("*.h5"))


@pytest.mark.needs("h5cc", "python:tables")
def test_what_unmodified_programs_write_is_read(tasks: Tasks) -> None:
    tasks.write(
        "pytables.py",
        """
        import tables, numpy as np
        for step in range(5):
            with tables.open_file(f"t{step}.h5", "w") as file:
                file.create_array("/", "rows", np.full((9, 12), float(step)))
                file.create_carray("/", "packed", obj=np.arange(99), filters=tables.Filters(1, "zlib"))
                columns = {"a": tables.Int32Col(), "b": tables.Float64Col()}
                table = file.create_table("/", "table", columns)
                table.append([(step, 0.5)])
        """,
    )
    tasks.write(
        "read.py",
        """
        import numpy as np, wilkins.transport
        def in_memory(step, array):
            return step._stored.address <= array.ctypes.data < step._stored.address + step._stored.size
        for name in ("s*.h5", "c*.h5"):
            for step in wilkins.transport.open(name):
                rows = step["rows"]
                assert in_memory(step, rows)
                assert (rows == step.index * 1e6 + np.arange(9)[:, None] * 1000.0 + np.arange(12)).all()
            print(step.index)
        for step in wilkins.transport.open("t*.h5"):
            assert in_memory(step, step["rows"]) and (step["rows"] == step.index).all()
            assert (step["packed"] == np.arange(99)).all() and step["table"].tolist() == [(step.index, 0.5)]
        print(step.index)
        """,
    )
    args = "['{}%d.h5', '5']"
    tasks.run(
        "func: pytables.py, outports: [{filename: 't*.h5'}]",
        f"name: shared, func: {build('ser_write.c', *serial_c(static=False))}, args: {args.format('s')}, "
        "outports: [{filename: 's*.h5'}]",
        f"name: static, func: {build('ser_write.c', *serial_c(static=True))}, args: {args.format('c')}, "
        "outports: [{filename: 'c*.h5'}]",
        "func: read.py, inports: [{filename: 's*.h5'}, {filename: 'c*.h5'}, {filename: 't*.h5'}]",
    )
    assert tasks.said("read") == ["4", "4", "4"]


@pytest.mark.usual("mpich")
@pytest.mark.parametrize(
    "mpi",
    [
        pytest.param("mpich", marks=pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich")),
        pytest.param("openmpi", marks=pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")),
    ],
)
def test_between_parallel_programs(tasks: Tasks, mpi: str) -> None:
    """Parallel files are read as arrays and published again; a parallel program checks all that comes out."""
    tasks.write(
        "pass_on.py",
        """
        import numpy as np, wilkins.transport
        for step in wilkins.transport.open("plt*.h5"):
            rows = step["rows"]
            assert step._stored.address <= rows.ctypes.data < step._stored.address + step._stored.size
            arrays = {name: step[name] for name in step}
            wilkins.transport.publish(f"out{step.index:04d}.h5", arrays, step.attrs)
            print(step.filename, step["mesh"].dtype.names)
        """,
    )
    launcher = "mpiexec.mpich" if mpi == "mpich" else "mpirun.openmpi --oversubscribe"
    parallel = "nprocs: 2, mpiexec: " + launcher
    tasks.run(
        f"func: {build('par_write.c', *parallel_c(mpi, static=False))}, {parallel}, args: ['plt%04d.h5', '3'], "
        "outports: [{filename: 'plt*.h5'}]",
        "func: pass_on.py, inports: [{filename: 'plt*.h5'}], outports: [{filename: 'out*.h5'}]",
        f"func: {build('par_read.c', *parallel_c(mpi, static=False))}, {parallel}, args: ['out%04d.h5', '3'], "
        "inports: [{filename: 'out*.h5'}]",
    )
    assert tasks.said("pass_on") == [f"plt{step:04d}.h5 ('id', 'at')" for step in range(3)]
    assert any("read 3 steps" in line for line in tasks.said("par_read"))
