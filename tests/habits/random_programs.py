"""The programs of random habits: each does what its rank's list of calls says, by the functions of these names."""

from __future__ import annotations

PROGRAM = """
import glob, json, mmap, multiprocessing, os, signal, socket, subprocess, sys, time
rank = int(os.environ.get("PMI_RANK", "0"))
case = json.load(open(os.environ["HABITS_CASE"]))
def name_of(k):
    return case["name"] % k
"""

WRITES = (
    PROGRAM
    + """
def plain(name, k):
    with open(name, "wb") as file:
        file.write(text(k)[:700])
        file.write(text(k)[700:])
def hdf5(name, k):
    put5(name, k)
def rename(name, k):
    put(f"draft{rank}", k)
    os.replace(f"draft{rank}", name)
def mapped(name, k):
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.ftruncate(fd, len(text(k)))
    with mmap.mmap(fd, len(text(k))) as memory:
        memory[:] = text(k)
    os.close(fd)
def duplicated(name, k):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    other = os.dup(fd)
    os.write(fd, text(k)[:99])
    os.close(fd)
    os.write(other, text(k)[99:])
    os.close(other)
def backwards(name, k):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.pwrite(fd, text(k)[1000:], 1000)
    os.pwrite(fd, text(k)[:1000], 0)
    os.close(fd)
def child(name, k):
    with open(name, "wb") as file:
        subprocess.run(["seq", str(k), str(k + 999)], stdout=file, check=True)
def redirected(name, k):
    subprocess.run(["sh", "-c", f"seq {k} {k + 999} > {name}"], check=True)
def copied(name, k):
    put(f"draft{rank}", k)
    subprocess.run(["cp", f"draft{rank}", name], check=True)
    os.remove(f"draft{rank}")
def linked(name, k):
    put(f"draft{rank}", k)
    os.link(f"draft{rank}", name)
    os.remove(f"draft{rank}")
kept = []
def leave(name, k):
    if name.endswith(".h5"):
        import h5py
        file = h5py.File(name, "w")
        file["x"] = range(k, k + 1000)
        file.flush()
        kept.append(file)
    else:
        os.write(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), text(k))
def run_true():
    os.execv("/bin/true", ["true"])
def left_by(name, k, end):
    child = os.fork()
    if child == 0:
        leave(name, k)
        end()
    os.waitpid(child, 0)
def left_by_exit_now(name, k):
    left_by(name, k, lambda: os._exit(0))
def left_by_failure(name, k):
    left_by(name, k, lambda: os._exit(3))
def left_by_exit(name, k):
    left_by(name, k, sys.exit)
def left_by_exec(name, k):
    left_by(name, k, run_true)
def left_by_kill(name, k):
    left_by(name, k, lambda: os.kill(os.getpid(), signal.SIGKILL))
def left_by_process(name, k):
    process = multiprocessing.get_context("fork").Process(target=leave, args=(name, k))
    process.start()
    process.join()
def left_by_worker(name, k):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply(leave, (name, k))
        pool.close()
        pool.join()
for way, k, pause in case["writers"][rank]:
    time.sleep(pause)
    globals()[way](name_of(k), k)
{"": lambda: None, "return": lambda: None, "exit": sys.exit, "exit now": lambda: os._exit(0), "exec": run_true}[
    case["ends"][rank]
]()
"""
)

TELLS = """
out = open(os.path.join(os.environ["HABITS_OUT"], sys.argv[1] + str(rank)), "a")
def told(*words):
    out.write(" ".join(map(str, words)) + "\\n")
    out.flush()
def shown(name, data):
    told(name, cksum(data))
def numbers(file):
    return "".join(f"{number}\\n" for number in file["x"][()]).encode()
def plain(name):
    with open(name, "rb") as file:
        shown(name, file.read())
def hdf5(name):
    import h5py
    with h5py.File(name) as file:
        added = [f"{key}:{file[key][()].sum()}" for key in sorted(file) if key != "x"]
        told(*added, *(f"{key}:{file.attrs[key]}" for key in sorted(file.attrs)), name, cksum(numbers(file)))
def exists(name):
    told(name, os.path.exists(name))
def size(name):
    told(name, os.stat(name).st_size > 0)
"""

STAGES = (
    PROGRAM
    + TELLS
    + """
import concurrent.futures
number = int(sys.argv[1].removeprefix("stage"))
stage = case["stages"][number]
def tagged(name, k):
    import h5py
    with h5py.File(name, "r+") as file:
        file.attrs[f"tag{number}"] = k
def added(name, k):
    import h5py
    with h5py.File(name, "a") as file:
        file[f"more{number}"] = file["x"][::7]
def overwritten(name, k):
    import h5py
    with h5py.File(name, "r+") as file:
        file["x"][5 * number] = -k
def looked(name, k):
    (hdf5 if name.endswith(".h5") else plain)(name)
def replaced(name, k):
    draft = f"draft{number}-{k}"
    if name.endswith(".h5"):
        import h5py
        with h5py.File(name) as file:
            held = file["x"][()]
        with h5py.File(draft, "w") as file:
            file["x"] = held[::-1]
    else:
        with open(name, "rb") as file, open(draft, "wb") as into:
            into.write(file.read()[::-1])
    os.replace(draft, name)
def renewed(name, k):
    if name.endswith(".h5"):
        import h5py
        with h5py.File(name) as file:
            held = file["x"][()]
        with h5py.File(name, "w") as file:
            file["x"] = held + 1
    else:
        with open(name, "rb") as file:
            held = file.read()
        with open(name, "wb") as file:
            file.write(held[3:])
def appended(name, k):
    with open(name, "ab") as file:
        file.write(b"tail %d" % number)
def patched(name, k):
    with open(name, "r+b") as file:
        file.seek(30 + number)
        file.write(b"xyz")
def cut(name, k):
    os.truncate(name, 1500 - 100 * number)
def mapped(name, k):
    fd = os.open(name, os.O_RDWR)
    with mmap.mmap(fd, 0) as memory:
        memory[7:9] = b"%02d" % number
    os.close(fd)
def do(operation):
    way, k, pause = operation
    time.sleep(pause)
    globals()[way](name_of(k), *(() if way in ("exists", "size") else (k,)))
def logged():
    with open(f"log{number}-{rank}", "a") as log:
        log.write(f"{len(stage[rank])} files\\n")
shape = case["shapes"][number]
if shape == "threads":
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(do, stage[rank]))
for operation in stage[rank] if shape != "threads" else ():
    if shape == "children":
        child = os.fork()
        if child == 0:
            do(operation)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    else:
        do(operation)
logged()
"""
)

READS = (
    PROGRAM
    + TELLS
    + """
def mapped(name):
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        shown(name, memory[:])
def positioned(name):
    fd = os.open(name, os.O_RDONLY)
    size = os.fstat(fd).st_size
    shown(name, os.pread(fd, 500, 0) + os.pread(fd, size, 500))
    os.close(fd)
def cat(name):
    shown(name, subprocess.run(["cat", name], capture_output=True, check=True).stdout)
def stdin(name):
    with open(name, "rb") as file:
        shown(name, subprocess.run(["cat"], stdin=file, capture_output=True, check=True).stdout)
def copied(name):
    mine = f"mine-{sys.argv[1]}-{rank}"
    subprocess.run(["cp", name, mine], check=True)
    with open(mine, "rb") as file:
        shown(name, file.read())
    os.remove(mine)
def access(name):
    told(name, os.access(name, os.R_OK))
def poll(name):
    while not os.path.exists(name):
        time.sleep(0.005)
    told(name, "is there")
def missing(name):
    try:
        open(name, "rb").close()
        told(name, "is there")
    except FileNotFoundError:
        told(name, "is missing")
def in_a_fork(look):
    gate, answer = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(gate[0], 1)
        os.write(answer[1], cksum(look()).encode())
        os._exit(0)
    os.close(gate[0])
    os.close(answer[1])
    def asked():
        os.write(gate[1], b".")
        said = os.read(answer[0], 99).decode()
        os.waitpid(child, 0)
        os.close(gate[1])
        os.close(answer[0])
        return said
    return asked
def map_kept(name):
    with open(name, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    first = memory[:]
    return lambda: cksum(memory[:]) if memory[:] == first else "changed"
def map_in_a_fork(name):
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        return in_a_fork(lambda: memory[:])
def descriptor_in_a_fork(name):
    with open(name, "rb") as file:
        return in_a_fork(lambda: os.pread(file.fileno(), 99999, 0))
def handle_in_a_fork(name):
    import h5py
    with h5py.File(name) as file:
        return in_a_fork(lambda: numbers(file))
def handle_mapped(name):
    import h5py, numpy
    with h5py.File(name) as file:
        file["x"][0]
        at = file["x"].id.get_offset()
        memory = mmap.mmap(file.id.get_vfd_handle(), 0, prot=mmap.PROT_READ)
    return lambda: cksum("".join(f"{one}\\n" for one in numpy.frombuffer(memory, "i8", 1000, at)).encode())
def received(end, size):
    data = b""
    while len(data) < size:
        data += os.read(end, size - len(data))
    os.close(end)
    return cksum(data)
def sent(name):
    ours, theirs = (end.detach() for end in socket.socketpair())
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        assert os.sendfile(ours, file.fileno(), 0, size) == size
    os.close(ours)
    return lambda: received(theirs, size)
def spliced(name):
    out, into = os.pipe()
    with open(name, "rb") as file:
        size = left = os.fstat(file.fileno()).st_size
        while left:
            left -= os.splice(file.fileno(), into, left)
    os.close(into)
    return lambda: received(out, size)
keeper = []
def passed(name):
    if not keeper:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            ours.close()
            held = {}
            while True:
                said, fds, _, _ = socket.recv_fds(theirs, 9, 1)
                if not said:
                    os._exit(0)
                if fds:
                    held[said] = fds[0]
                else:
                    theirs.send(cksum(os.pread(held.pop(said), 99999, 0)).encode())
        theirs.close()
        keeper.extend([ours, 0])
    keeper[1] += 1
    ours, number = keeper[0], b"%d" % keeper[1]
    with open(name, "rb") as file:
        socket.send_fds(ours, [number], [file.fileno()])
    def asked():
        ours.send(number)
        return ours.recv(99).decode()
    return asked
pending = []
def wait(calls):
    for item in pending:
        item[0] -= calls
    for item in [item for item in pending if item[0] <= 0]:
        pending.remove(item)
        told(item[1], item[2]())
def read(way, name, later=0):
    seen = globals()[way](name)
    if seen:
        pending.append([later, name, seen])
for operation in case["before" if sys.argv[1] == "before" else "readers"][rank]:
    if operation[0] == "pause":
        time.sleep(operation[1])
    elif operation[0] == "rest":
        wait(99)
        left = {name_of(k) for k in operation[2]}
        while left:
            for name in sorted(left & set(glob.glob(case["pattern"]))):
                read(operation[1], name, 99)
                left.remove(name)
            time.sleep(0.005)
    else:
        wait(1)
        read(operation[0], name_of(operation[1]), *operation[2:])
wait(99)
"""
)
