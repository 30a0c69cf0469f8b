"""One MPI job over several hosts: `mpiexec -n N wilkins run FILE`, where the ranks are on more than one."""
