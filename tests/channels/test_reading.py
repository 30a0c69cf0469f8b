"""Steps of an unmodified program as arrays over shared memory, and tensors; what policies let through."""

from __future__ import annotations

import pytest
from channels.programs import WRITE, Tasks


@pytest.mark.usual("both")
@pytest.mark.parametrize("mode", ["memory", "both", "file"])
def test_steps_of_an_unmodified_program(tasks: Tasks, mode: str) -> None:
    """Views lie in the arena and cost no copy; what is packed is read; all values are those of the step."""
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import numpy as np, wilkins.transport
        from wilkins.transport.memory import bytes_moved
        for step in wilkins.transport.open("x*.h5"):
            before = bytes_moved()
            u = step["u"]
            assert bytes_moved() == before and not u.flags.writeable
            assert u.shape == (300, 1000) and (u == step.index).all()
            stored = step._stored
            assert stored.address < u.ctypes.data < stored.address + stored.size
            assert any(f"{stored.address:x}-" in line and "wilkins-" in line for line in open("/proc/self/maps"))
            assert (step["packed"] == np.arange(1000) + step.index).all()
            assert (step["packed", 3:7] == np.arange(3, 7) + step.index).all()
            assert step["name"][()].decode() == f"step {step.index}" and step.attrs["step"] == step.index
            print(step.index, step.filename, *step.names())
        """,
    )
    tasks.run(
        f"func: write.py, args: [7, 'x{{}}.h5'], outports: [{{filename: 'x*.h5', mode: {mode}}}]",
        "func: read.py, inports: [{filename: 'x*.h5'}]",
    )
    assert tasks.said("read") == [f"{step} x{step}.h5 name packed u" for step in range(7)]
    assert len(list(tasks.folder.glob("x*.h5"))) == (0 if mode == "memory" else 7)


@pytest.mark.usual("latest-rewritten", "3-numbered")
@pytest.mark.parametrize("fixed", [False, True], ids=["numbered", "rewritten"])
@pytest.mark.parametrize("policy", ["all", "latest", "3"])
def test_policies(tasks: Tasks, policy: str, fixed: bool) -> None:
    pattern, name = ("x.h5", "x.h5") if fixed else ("x*.h5", "x{}.h5")
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import time, wilkins.transport
        for step in wilkins.transport.open():
            u = step["u"]
            time.sleep(0.05)
            assert (u == step.attrs["step"]).all()
            print(step.attrs["step"])
        """,
    )
    tasks.run(
        f"func: write.py, args: [12, '{name}'], outports: [{{filename: '{pattern}'}}]",
        f"func: read.py, inports: [{{filename: '{pattern}', io_freq: {policy}}}]",
    )
    got = [int(line) for line in tasks.said("read")]
    if policy == "latest":
        assert got == sorted(set(got)) and got[-1] == 11
    else:
        assert got == (list(range(12)) if policy == "all" else [2, 5, 8, 11])


@pytest.mark.usual("names-5-sys", "one name-5-h5py")
@pytest.mark.parametrize("library", ["sys", "h5py"])
@pytest.mark.parametrize("size", [0, 5, 100_000])
@pytest.mark.parametrize("name", ["x{}.txt", "x.txt"], ids=["names", "one name"])
def test_small_steps_that_are_not_hdf5(tasks: Tasks, size: int, library: str, name: str) -> None:
    """No library opens them again after a look: they are read once read to their end, and empty ones once opened."""
    tasks.write(
        "write.py",
        """
        import sys
        for step in range(6):
            with open(sys.argv[2].format(step), "w") as file:
                file.write(str(step) * int(sys.argv[1]))
        """,
    )
    tasks.write(
        "read.py",
        f"""
        import ctypes, os, sys
        import {library}
        c = ctypes.CDLL(None)
        c.fopen.restype = ctypes.c_void_p
        c.fgetc.argtypes = c.fclose.argtypes = [ctypes.c_void_p]

        def by_descriptor(name):
            file = os.open(name, os.O_RDONLY)
            size = os.fstat(file).st_size
            text = os.read(file, size) if size else b""
            os.close(file)
            return text[:1].decode()

        def by_python(name):
            with open(name) as file:
                return file.read()[:1]

        def by_stream(name):
            file = c.fopen(name.encode(), b"r")
            character = c.fgetc(file)
            c.fclose(file)
            return chr(character) if character >= 0 else ""

        for step in range(6):
            print([by_descriptor, by_python, by_stream][step % 3](sys.argv[1].format(step)))
        """,
    )
    port = f"[{{filename: '{name.format('*')}'}}]"
    tasks.run(
        f"func: write.py, args: ['{size}', '{name}'], outports: {port}",
        f"func: read.py, args: ['{name}'], inports: {port}",
    )
    assert tasks.said("read") == (list("012345") if size else [""] * 6)


@pytest.mark.usual("names")
@pytest.mark.needs("python:netCDF4")
@pytest.mark.parametrize("name", ["x{}.nc", "x.nc"], ids=["names", "one name"])
def test_small_classic_netcdf(tasks: Tasks, name: str) -> None:
    """netCDF looks at the first bytes of every file; of a small one it reads no more afterwards."""
    tasks.write(
        "write.py",
        """
        import sys, netCDF4
        for step in range(6):
            with netCDF4.Dataset(sys.argv[1].format(step), "w", format="NETCDF3_CLASSIC") as file:
                file.createDimension("x", 5)
                file.createVariable("v", "i4", ("x",))[:] = step
        """,
    )
    tasks.write(
        "read.py",
        """
        import sys, netCDF4
        for step in range(6):
            with netCDF4.Dataset(sys.argv[1].format(step)) as file:
                print(file["v"][0])
        """,
    )
    port = f"[{{filename: '{name.format('*')}'}}]"
    tasks.run(
        f"func: write.py, args: ['{name}'], outports: {port}", f"func: read.py, args: ['{name}'], inports: {port}"
    )
    assert tasks.said("read") == list("012345")


@pytest.mark.usual("512")
@pytest.mark.parametrize("block", [0, 512, 2048])
def test_a_look_at_the_first_bytes(tasks: Tasks, block: int) -> None:
    """Of HDF5 under a rewritten name it takes no step, though it sees all of a small one: the open after it does."""
    tasks.write(
        "write.py",
        f"""
        import h5py
        for step in range(6):
            with h5py.File("x.h5", "w", userblock_size={block}) as file:
                file["step"] = step
        """,
    )
    tasks.write(
        "read.py",
        """
        import h5py
        for _ in range(6):
            with open("x.h5", "rb") as file:
                file.read(8)
            with h5py.File("x.h5") as file:
                print(file["step"][()])
        """,
    )
    tasks.run("func: write.py, outports: [{filename: x.h5}]", "func: read.py, inports: [{filename: x.h5}]")
    assert tasks.said("read") == list("012345")


@pytest.mark.usual("sys")
@pytest.mark.parametrize("library", ["sys", "h5py"])
def test_the_first_line_of_a_rewritten_text(tasks: Tasks, library: str) -> None:
    """A part of what is not HDF5 is a read, too, if it is more than a signature."""
    tasks.write("write.py", "for step in range(6):\n    open('x.txt', 'w').write(f'{step}\\n' + 'rest ' * 100_000)")
    tasks.write("read.py", f"import {library}\nfor _ in range(6):\n    print(open('x.txt').readline().strip())")
    tasks.run(
        "func: write.py, outports: [{filename: x.txt}]",
        "func: read.py, inports: [{filename: x.txt}]",
    )
    assert tasks.said("read") == list("012345")


def test_arrays_outlive_step_channel_and_producer(tasks: Tasks) -> None:
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import gc, wilkins.transport
        kept = []
        def read():
            with wilkins.transport.open("x*.h5") as channel:
                for step in channel:
                    if step.index % 2 == 0:
                        kept.append((step.index, step["u"][step.index :, ::3], step.buffer("u")))
        read()
        gc.collect()
        assert wilkins.transport.open("x*.h5").poll() is None
        for index, part, buffer in kept:
            assert (part == index).all() and (buffer.array == index).all() and part.shape == (300 - index, 334)
        print(*(index for index, _, _ in kept))
        """,
    )
    tasks.run(
        "func: write.py, args: [9, 'x{}.h5'], outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5'}]",
    )
    assert tasks.said("read") == ["0 2 4 6 8"]


def test_a_step_is_itself_whatever_its_name_means(tasks: Tasks) -> None:
    """Steps of a rewritten name, opened by HDF5 only after later ones were taken, and again after they were closed."""
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import h5py, wilkins.transport
        channel = wilkins.transport.open("x.h5")
        first, second, third = next(channel), next(channel), channel.poll() or next(channel)
        with h5py.File("x.h5") as file:  # the name means the step that was taken last
            assert file.attrs["step"] == 2
        for step in (second, first, third):
            assert step.attrs["step"] == step.index and (step["u"] == step.index).all()
            step.file.close()
            assert step["name"][()].decode() == f"step {step.index}" and (step["u", 1] == step.index).all()
        both = first.file, h5py.File("x.h5")
        assert [file.attrs["step"] for file in both] == [0, 2]
        del first, second, third, step, both
        print(*(step.attrs["step"] for step in channel))
        """,
    )
    tasks.run(
        "func: write.py, args: ['7', x.h5], outports: [{filename: x.h5}]",
        "func: read.py, inports: [{filename: x.h5}]",
    )
    assert tasks.said("read") == ["3 4 5 6"]


def test_two_channels_at_once(tasks: Tasks) -> None:
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import time, wilkins.transport
        with wilkins.transport.open("x*.h5") as first, wilkins.transport.open("y.h5") as second:
            for a, b in zip(first, second):
                u, v = a["u"], b["u"]
                assert (u == a.index).all() and (v == b.index).all() and a.index == b.index
                print(a.filename, b.filename)
            while not second.ended:  # its producer may take a moment to end
                assert second.poll() is None
                time.sleep(0.001)
        """,
    )
    tasks.run(
        "func: write.py, args: [6, 'x{}.h5'], outports: [{filename: 'x*.h5'}]",
        "name: other, func: write.py, args: [6, y.h5], outports: [{filename: y.h5}]",
        "func: read.py, inports: [{filename: 'x*.h5'}, {filename: y.h5}]",
    )
    assert tasks.said("read") == [f"x{step}.h5 y.h5" for step in range(6)]


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
def test_torch_tensors_in_a_run(tasks: Tasks) -> None:
    tasks.write(
        "write.py",
        """
        import torch, wilkins.transport
        for step in range(4):
            x = torch.full((1 << 18,), float(step))
            wilkins.transport.publish(f"x{step}.h5", {"x": x, "y": torch.arange(5)})
        """,
    )
    tasks.write(
        "read.py",
        """
        import torch, wilkins.transport
        from wilkins.transport.memory import bytes_moved
        kept = []
        for step in wilkins.transport.open("x*.h5"):
            before = bytes_moved()
            x = step.torch("x")
            assert bytes_moved() == before and x.data_ptr() == step["x"].ctypes.data
            assert torch.all(x == step.index) and step.torch("y").tolist() == [0, 1, 2, 3, 4]
            kept.append(step.torch("x", slice(10)))
        assert [tensor[0].item() for tensor in kept] == [0, 1, 2, 3]
        weights = torch.ones(10, requires_grad=True)
        (weights * kept[3]).sum().backward()
        print(weights.grad.sum().item())
        """,
    )
    tasks.run("func: write.py, outports: [{filename: 'x*.h5'}]", "func: read.py, inports: [{filename: 'x*.h5'}]")
    assert tasks.said("read") == ["30.0"]
