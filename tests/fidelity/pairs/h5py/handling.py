"""Cases about how a program handles its files: opening twice, failing, closing late, asking about them."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from fidelity.cases import attempt, case, take, target
from h5py import h5f, h5p


def small(name: str | io.BytesIO, mode: str = "w", **options: Any) -> None:
    with h5py.File(name, mode, **options) as f:
        f["x"] = np.arange(10)
        f.attrs["mode"] = mode


@case("user blocks", pair=True)
def user_block(name: str) -> list[int]:
    with h5py.File(name, "w", userblock_size=1024) as f:
        f["x"] = np.arange(100)
    with h5py.File(target(name), "w", userblock_size=512) as f:
        f["x"] = np.arange(100)
        return [f.userblock_size, f.id.get_filesize()]


@case("user blocks", "errors")
def wrong_user_block(name: str) -> str:
    failed = attempt(lambda: h5py.File(name, "w", userblock_size=1000))
    small(name)
    return failed


@case("file space")
def paged(name: str) -> list[Any]:
    with h5py.File(name, "w", fs_strategy="page", fs_persist=True, fs_threshold=2) as f:
        f["x"] = np.arange(1000)
        f["y"] = np.arange(100)
        del f["y"]
        return [f.id.get_filesize(), f.id.get_freespace()]


@case("file space")
def paged_and_buffered(name: str) -> float:
    with h5py.File(name, "w", fs_strategy="page", fs_page_size=4096, page_buf_size=65536) as f:
        for i in range(50):
            f[f"g{i}/x"] = np.full(1000, i)
        return float(f["g7/x"][5])


@case("file handling", pair=True)
def locked_or_not(name: str) -> list[str]:
    small(name)
    with h5py.File(target(name), "w", locking=True) as f:
        f["x"] = 1
        return [attempt(h5py.File, target(name), "r", locking=False)]


@case("file space")
def aggregated(name: str) -> None:
    with h5py.File(name, "w", fs_strategy="aggregate", fs_persist=True) as f:
        f["x"] = np.arange(1000)
        del f["x"]
        f["y"] = np.arange(3)


@case("file space")
def no_free_space_management(name: str) -> None:
    with h5py.File(name, "w", fs_strategy="none") as f:
        f["x"] = np.arange(1000)


@case("file space")
def aligned(name: str) -> None:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_alignment(1000, 65536)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    with h5py.File(h5f.create(name.encode(), h5f.ACC_TRUNC, fapl=access)) as f:
        f["x"] = np.arange(1000)
        f["y"] = np.arange(1000)
        f["small"] = 1


@case("file space")
def tuned(name: str) -> None:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_sieve_buf_size(128)
    access.set_cache(0, 7, 100, 0.5)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    creation = h5p.create(h5p.FILE_CREATE)
    creation.set_sizes(4, 4)
    creation.set_link_creation_order(h5p.CRT_ORDER_TRACKED)
    with h5py.File(h5f.create(name.encode(), h5f.ACC_TRUNC, fcpl=creation, fapl=access)) as f:
        for i in range(40):
            f.create_dataset(f"g{i}/x", data=np.arange(100), chunks=(7,))


@case("file handling")
def written_and_reopened_while_open(name: str) -> list[Any]:
    with h5py.File(name, "w") as first:
        first["x"] = np.arange(10)
        with h5py.File(name, "r+") as second:
            second["x"][3] = 77
            second["y"] = 1
            seen: list[Any] = [first == second, int(first["x"][3]), "y" in first, second.mode]
        seen.append(int(first["x"][3]))
        first["z"] = 2
        return seen


@case("file handling")
def second_open_outlives_the_first(name: str) -> list[Any]:
    first = h5py.File(name, "w")
    first["x"] = np.arange(10)
    second = h5py.File(name, "r+")
    first.close()
    second["y"] = 5
    with h5py.File(name, "a") as third:
        third["z"] = 6
    seen = sorted(second)
    second.close()
    return seen


@case("file handling", "errors")
def opened_in_conflict(name: str) -> list[str]:
    with h5py.File(name, "w") as f:
        f["x"] = 1
        f.flush()
        seen = [attempt(h5py.File, name, mode) for mode in ("r", "w", "w-", "x")]
        seen.append(attempt(lambda: h5py.File(name, "r+", libver="latest").close()))
        seen.append(attempt(lambda: h5py.File(name, "a").close()))
        return seen


@case("file handling", "errors")
def created_where_one_is(name: str) -> list[str]:
    small(name)
    return [attempt(h5py.File, name, mode) for mode in ("w-", "x")]


@case("file handling")
def created_exclusively(name: str) -> None:
    small(name, "x")


@case("appending", "errors")
def appended_to_nothing(name: str) -> list[str]:
    seen = [attempt(h5py.File, name, mode) for mode in ("r", "r+")]
    seen += [
        attempt(lambda: h5py.is_hdf5(name)),
        attempt(lambda: Path(name).exists()),
        attempt(lambda: Path(name).open("rb").close()),
    ]
    small(name, "a")
    return seen


@case("file handling", "errors")
def read_back_by_its_writer(name: str) -> list[Any]:
    small(name)
    with h5py.File(name, "r") as f, h5py.File(name, "r") as g:
        seen: list[Any] = [f["x"][()].tolist(), f == g, f["x"] == g["x"], f.mode]
        seen += [attempt(lambda: f.create_group("g")), attempt(lambda: f.attrs.__setitem__("a", 1))]
        seen.append(attempt(lambda: h5py.File(name, "r+")))
    return [*seen, h5py.is_hdf5(name), Path(name).stat().st_size]


@case("errors")
def failed_inside(name: str) -> str:
    def fail() -> None:
        with h5py.File(name, "w") as f:
            f["x"] = np.arange(10)
            f["x/y"] = 1

    return attempt(fail)


@case("errors")
def refused_by_hdf5(name: str) -> list[str]:
    with h5py.File(name, "w") as f:
        f["x"] = np.arange(10)
        return [
            attempt(lambda: f.__setitem__("x", 1)),
            attempt(lambda: f["none"]),
            attempt(lambda: f["x"][11]),
            attempt(lambda: f["x"].resize((20,))),
            attempt(lambda: f.create_dataset("bad", (3,), chunks=(5,))),
            attempt(lambda: f.create_dataset("huge", (1 << 62, 16), "f8")),
            attempt(lambda: f.create_dataset("bad", (3,), "f4", compression="nonsense")),
            attempt(lambda: f.attrs["none"]),
            attempt(lambda: f.create_group("x")),
            attempt(lambda: f.move("none", "some")),
        ]


@case("closing", "errors")
def closed_in_odd_order(name: str) -> list[Any]:
    f = h5py.File(name, "w")
    x = f.create_dataset("x", data=np.arange(10))
    group = f.create_group("g")
    seen = [attempt(lambda: repr(f)), attempt(lambda: repr(x))]
    f.close()
    return [
        *seen,
        attempt(lambda: x[0]),
        attempt(lambda: group["y"]),
        bool(x),
        attempt(lambda: repr(f)),
        attempt(f.close),
    ]


@case("closing")
def dataset_outlives_its_file(name: str) -> list[int]:
    weak = h5f.create(name.encode(), h5f.ACC_TRUNC)
    x = h5py.File(weak).create_dataset("x", data=np.arange(10))
    weak.close()
    x[4] = 44
    seen = int(x[4])
    x.id.close()
    return [seen]


@case("file handling")
def asked_about(name: str) -> list[Any]:
    with h5py.File(name, "w") as f:
        f["x"] = np.arange(10)
        f.flush()
        access = f.id.get_access_plist()
        seen = [
            f.id.get_filesize(),
            f.id.get_freespace(),
            f.id.name.decode(),
            f.filename,
            f.id.get_intent(),
            f.name,
            f.mode,
        ]
        seen += [attempt(lambda: f.libver), attempt(access.get_fclose_degree), attempt(access.get_alignment)]
        seen += [hashlib.sha256(f.id.get_file_image()).hexdigest(), attempt(lambda: f.id.get_vfd_handle() > 2)]
        seen += [attempt(access.get_libver_bounds), f.id.get_mdc_size()[0]]
        seen += [attempt(lambda: f.id.get_mdc_hit_rate() > 0), f.id.get_mdc_size()[3], h5f.get_obj_count(f.id)]
        seen += [attempt(lambda: os.pread(f.id.get_vfd_handle(), 8, 0)), attempt(lambda: f.driver)]
        again = h5f.open(name.encode(), h5f.ACC_RDWR, fapl=access)
        return [*seen, attempt(lambda: h5py.File(again) == f), again.close()]


@case("drivers", pair=True)
def access_list_for_another(name: str) -> list[int]:
    """An access list taken from a file of a port serves for one that is none, and back."""
    small(name)
    with h5py.File(name, "r") as f:
        access = f.id.get_access_plist()
    with h5py.File(h5f.create(b"other-file.h5", h5f.ACC_TRUNC, fapl=access)) as other:
        other["x"] = np.arange(3)
    with h5py.File("other-file.h5", "r") as other:
        kept = other.id.get_access_plist()
        seen = other["x"][()].tolist()
    with h5py.File(h5f.create(target(name).encode(), h5f.ACC_TRUNC, fapl=kept)) as f:
        f["x"] = 1
    return [*seen, Path("other-file.h5").stat().st_size]


@case("file handling")
def names_of_one_file(name: str) -> list[Any]:
    with h5py.File("./" + name, "w") as f:
        f["x"] = 1
        f.flush()
        seen: list[Any] = [f.filename, attempt(lambda: h5py.File(name, "r"))]
        with h5py.File(Path(name).absolute(), "r+") as g:
            seen += [f == g, int(g["x"][()])]
        return seen


@case("drivers")
def core_driver(name: str) -> None:
    small(name, driver="core", backing_store=True)


@case("drivers")
def core_driver_in_pieces(name: str) -> None:
    with h5py.File(name, "w", driver="core", block_size=512) as f:
        f["x"] = np.arange(100000)


@case("drivers")
def core_driver_that_stores_nothing(name: str) -> list[Any]:
    with h5py.File(name, "w", driver="core", backing_store=False) as f:
        f["scratch"] = np.arange(1000)
        seen: list[Any] = [f.driver, f.id.get_filesize(), Path(name).exists()]
    seen.append(Path(name).exists())
    small(name)
    return seen


@case("drivers")
def stdio_driver(name: str) -> None:
    small(name, driver="stdio")


@case("drivers")
def sec2_driver(name: str) -> None:
    small(name, driver="sec2")


@case("drivers")
def file_like(name: str) -> str:
    buffer = io.BytesIO()
    small(buffer)
    with Path(name).open("wb") as f:
        f.write(buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


@case("drivers")
def from_an_image(name: str) -> Any:
    with h5py.File("memory", "w", driver="core", backing_store=False) as f:
        f["x"] = np.arange(10)
        f.flush()
        image = f.id.get_file_image()
    with Path(name).open("wb") as out:
        out.write(image)
    with h5py.File(h5f.open_file_image(image)) as f:
        return f["x"][()].tolist()


@case("errors")
def no_hdf5_file(name: str) -> list[str]:
    with Path(name).open("wb") as f:
        f.write(b"no HDF5 at all" * 100)
    return [attempt(lambda: h5py.is_hdf5(name)), attempt(lambda: h5py.File(name, "r"))]


@case("errors")
def an_empty_one(name: str) -> list[str]:
    with Path(name).open("wb"):
        pass
    return [attempt(lambda: h5py.is_hdf5(name)), attempt(lambda: h5py.File(name, "r"))]


@case("file handling")
def flushed_often(name: str) -> None:
    with h5py.File(name, "w") as f:
        x = f.create_dataset("x", (0,), "f8", maxshape=(None,), chunks=(1000,))
        for i in range(50):
            x.resize((100 * (i + 1),))
            x[100 * i :] = i
            f.flush()


@case("large datasets")
def large(name: str) -> float:
    with h5py.File(name, "w") as f:
        x = f.create_dataset("x", data=np.arange(3_000_000, dtype="f8"))
        f.create_dataset("sparse", (40_000_000,), "u1")[39_999_999] = 1
        return float(x[-1])


@case("file handling", pair=True)
def two_at_once(name: str) -> None:
    with h5py.File(name, "w") as f, h5py.File(target(name), "w") as g:
        for i in range(20):
            f[f"x{i}"] = np.full(5000, i)
            g[f"x{i}"] = np.full(5000, -i)


def stays_shut_for_writing(name: str) -> list[str]:
    with h5py.File(name, "r") as f:
        return [
            attempt(lambda: f.create_group("g")),
            attempt(lambda: f["x"].__setitem__(0, 1)),
            attempt(lambda: f.attrs.__setitem__("a", 1)),
            attempt(lambda: f.__delitem__("x")),
            attempt(lambda: h5py.File(name, "r+")),
            attempt(lambda: h5py.File(name, "r")["x"] == f["x"]),
        ]


@case("errors", consume=stays_shut_for_writing)
def written_to_by_a_reader(name: str) -> None:
    small(name)


def in_other_ways(name: str) -> list[Any]:
    def read(**options: Any) -> Any:
        with h5py.File(name, "r", **options) as f:
            return f["x"][()].tolist()

    seen = [attempt(read, driver=driver) for driver in ("core", "stdio", "sec2")]
    with Path(name).open("rb") as raw:
        seen.append(attempt(lambda: h5py.File(raw, "r")["x"][()].tolist()))
        raw.seek(0)
        seen.append(attempt(lambda: h5py.File(h5f.open_file_image(raw.read()))["x"][()].tolist()))
    keys = ("rdcc_nbytes", "page_buf_size", "nonsense")
    seen += [attempt(read, **{key: 100000}) for key in keys]
    seen.append(attempt(lambda: read(libver="latest")))
    seen.append(attempt(lambda: h5py.File(Path(name).absolute(), "r")["x"][()].tolist()))
    return seen


@case("drivers", consume=in_other_ways)
def read_in_other_ways(name: str) -> None:
    small(name)


def several_at_once(name: str) -> list[Any]:
    files = [h5py.File(name, "r") for _ in range(3)]
    x = files[0]["x"]
    files[0].close()
    seen = [files[1] == files[2], files[1]["x"] == files[2]["x"], attempt(lambda: x[0]), files[2]["x"][()].tolist()]
    for file in files:
        file.close()
    return seen


@case("file handling", consume=several_at_once)
def read_several_times(name: str) -> None:
    small(name)


def with_one_writer(name: str) -> list[Any]:
    def follow() -> list[Any]:
        with h5py.File(name, "r", swmr=True) as f:
            x = f["x"]
            x.refresh()
            return [x.shape, float(x[-1]), f.swmr_mode, attempt(lambda: x.__setitem__(0, 1))]

    return [attempt(follow), take(name)]


@case("swmr", consume=with_one_writer, refused=True)
def one_writer_many_readers(name: str) -> list[Any]:
    with h5py.File(name, "w", libver="latest") as f:
        x = f.create_dataset("x", (0,), "f8", maxshape=(None,), chunks=(1000,))
        seen = [attempt(setattr, f, "swmr_mode", True)]
        for i in range(20):
            x.resize((500 * (i + 1),))
            x[500 * i :] = i
            x.flush()
        return [*seen, f.swmr_mode, attempt(lambda: h5py.File(name, "r+"))]


@case("swmr", consume=with_one_writer, refused=True)
def one_writer_of_an_old_file(name: str) -> list[str]:
    with h5py.File(name, "w") as f:
        f["x"] = np.arange(5.0)
        seen = [attempt(lambda: setattr(f, "swmr_mode", True))]
    return [*seen, attempt(lambda: h5f.open(name.encode(), h5f.ACC_RDWR | h5f.ACC_SWMR_WRITE))]
