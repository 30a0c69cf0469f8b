"""mpi4py sees its task as the world; forks, threads and subprocesses do no harm. Usage: world_mpi4py.py SIZE"""

import os
import subprocess
import sys
import threading

from mpi4py import MPI

world = MPI.COMM_WORLD
size, rank = world.Get_size(), world.Get_rank()
assert size == int(sys.argv[1]), size
assert MPI.Is_initialized() and not MPI.Is_finalized()
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
assert MPI.Is_thread_main()
assert world.allgather(rank) == list(range(size))
assert world.allreduce(rank) == size * (size - 1) // 2
assert world.Get_attr(MPI.TAG_UB) >= 32767
assert world.Dup().Get_attr(MPI.TAG_UB) >= 32767
assert MPI.Comm.Compare(world, MPI.COMM_WORLD) == MPI.IDENT
assert world.Get_name() == "MPI_COMM_WORLD"
assert world.Split(rank % 2, rank).Get_size() == (size + 1 - rank % 2) // 2
try:
    world.send(None, dest=size)
except MPI.Exception:
    pass
else:
    raise AssertionError("sent to a rank beyond the world")

answers: list[bool] = []
threads = [threading.Thread(target=lambda: answers.append(MPI.Is_thread_main())) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == [False, False]
copies = [world.Dup() for _ in range(2)]
threads = [threading.Thread(target=lambda c=copy: answers.append(c.allgather(rank))) for copy in copies]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers[2:] == [list(range(size))] * 2

child = os.fork()
if child == 0:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
assert subprocess.run([sys.executable, "-c", "print('a child')"], capture_output=True, check=True).stdout
world.Barrier()
print(f"world of {size}: rank {rank} is well", flush=True)
