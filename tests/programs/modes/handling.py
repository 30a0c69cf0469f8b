"""What a program does with its own files besides writing them; prints what it meets, with and without Wilkins."""

import os
from pathlib import Path

import h5py


def write(name: str, value: int, mode: str = "w") -> None:
    with h5py.File(name, mode) as f:
        f.attrs["value"] = value
        f.create_dataset(f"x{len(f)}", data=[float(value)] * 1000)


def value(name: str) -> int:
    with h5py.File(name, "r") as f:
        return int(f.attrs["value"])


def attempt(what: str, call, *args) -> None:  # type: ignore[no-untyped-def]
    try:
        print(what, call(*args))
    except OSError as error:
        print(what, type(error).__name__, error.errno)


def bits(name: str) -> str:
    return oct(os.stat(name).st_mode)  # noqa: PTH116, what programs call


os.umask(0o027)
print("old", value("s0.h5"), bits("s0.h5"))
attempt("exclusive over old", write, "s0.h5", 1, "x")
write("s0.h5", 1)
print("rewritten", value("s0.h5"), bits("s0.h5"))
attempt("exclusive", write, "s0.h5", 1, "x")
write("s0.h5", 2, "a")
with h5py.File("s0.h5", "r") as f:
    print("added to", sorted(f), f.attrs["value"])
write("s1.h5", 3)
print("new", bits("s1.h5"), Path("s1.h5").stat().st_size == Path("s0.h5").stat().st_size)
Path("s1.h5").chmod(0o604)
write("s1.h5", 4)
print("mode kept", bits("s1.h5"))
write("s2.h5", 5)
Path("s2.h5").unlink()
print("removed", Path("s2.h5").exists())
attempt("read removed", value, "s2.h5")
write("s3.h5", 6)
Path("s3.h5").rename("s4.h5")
print("renamed", Path("s3.h5").exists(), value("s4.h5"))
write("draft.tmp", 7)
Path("draft.tmp").chmod(0o640)
Path("draft.tmp").rename("s5.h5")
print("published", Path("draft.tmp").exists(), value("s5.h5"), bits("s5.h5"))
write("s6.h5", 8)
Path("s6.h5").rename("kept.dat")
print("put away", Path("s6.h5").exists(), Path("kept.dat").exists())
Path("sub").mkdir()
os.chdir("sub")
write("s7.h5", 9)
os.chdir("..")
print("elsewhere", Path("s7.h5").exists(), value("sub/s7.h5"))
write(str(Path("s8.h5").absolute()), 10)
Path("real.dat").write_bytes(b"")
Path("s9.h5").symlink_to("real.dat")
write("s9.h5", 11)
print("through a link", Path("s9.h5").is_symlink(), Path("real.dat").stat().st_size > 0)
attempt("no folder", write, "none/s10.h5", 12)
Path("s11.h5").mkdir()
attempt("a folder", write, "s11.h5", 13)
Path("s12.h5").write_bytes(b"no HDF5")
attempt("no HDF5", value, "s12.h5")
with open("s13.h5", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as text:
    text.write("plain text\n")
print("text", bits("s13.h5"), Path("s13.h5").read_text())
with h5py.File("s14.h5", "w") as f:
    f.attrs["value"] = 15
    attempt("changed while written", os.chmod, "s14.h5", 0o604)
    attempt("touched", os.utime, "s14.h5", (0, 0))
    attempt("marked", os.setxattr, "s14.h5", "user.mark", b"1")
    print("bits", bits("s14.h5"))
    attempt("moved while written", os.rename, "s14.h5", "sub/s15.h5")
    print("there", Path("s14.h5").exists(), Path("sub/s15.h5").exists(), bits("sub/s15.h5"))
    f["more"] = 1
print("whole", value("sub/s15.h5"), bits("sub/s15.h5"), os.listxattr("sub/s15.h5"))
with Path("s16.h5").open("w") as text:
    text.write("read only\n")
    text.flush()
    os.fchmod(text.fileno(), 0o400)
    attempt("changed by a descriptor", bits, "s16.h5")
print("read only", bits("s16.h5"), Path("s16.h5").read_text())
with Path("s17.h5").open("w") as text:
    text.write("replaced")
    text.flush()
    Path("draft.tmp").write_text("in its place\n")
    os.replace("draft.tmp", "s17.h5")  # noqa: PTH105, what programs call
    print("replaced", Path("s17.h5").read_text())
print("in place", Path("s17.h5").read_text())
try:
    write("s0.h5", 14, "r")
except (OSError, KeyError, ValueError) as error:
    print("read only", type(error).__name__)
print("listed", sorted(os.listdir()))  # noqa: PTH208, what programs call
