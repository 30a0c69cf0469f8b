"""The commented workflow file that ``wilkins init`` writes."""

STARTER = """\
# A workflow: which programs run, on how many ranks, and which files connect them.
# Check it with `wilkins check`, see it with `wilkins graph`, run it with `wilkins run`.
# To learn it step by step: `wilkins help two-tasks`. All keys: `wilkins help workflow-file`.
tasks:
  - name: simulation            # optional; default: the program's name
    func: ./simulate            # a program on PATH or relative to this file; .py runs under this Python
    nprocs: 2                   # MPI ranks; 1 (the default) is an ordinary process
    args: ["input.txt"]
    outports:
      - filename: "plt*.h5"     # files it writes; matched on the last components of their names

  - name: analysis
    func: ./analyse.py
    inports:
      - filename: "plt*.h5"     # files it reads, in memory while both programs run
        io_freq: 1              # 1: every step; n: the n-th, 2n-th, ...; latest: always the newest
"""
