"""Has blocks compressed by another process, and goes on without loss where that dies or does not answer."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.compression.worker import Encoded
from wilkins.tasks.errors import TaskError

_SLOWEST = 1e5
"""Bytes per second below which a compressor is taken to hang."""
_PATIENCE = 30.0
"""Seconds that it may take, whatever the size of a block."""
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from wilkins.tasks.compression.worker import main; main()"
"""What is in the folder where it is started, as a user's own `copy.py`, is not imported."""


class Compressor:
    """One process that compresses, started when it is first needed, and again after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.deaths = 0
        """How often it has died over a block, or was ended because it did not answer."""

    def __enter__(self) -> Compressor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def check() -> None:
        """Find out whether there is an error-bounded compressor.

        Raises:
            TaskError: there is none; says what to install.
        """
        try:
            import hdf5plugin  # noqa: F401 - registers the filters
        except ImportError:
            raise TaskError(
                "a bound for a dataset needs hdf5plugin, which is not installed here; pip install hdf5plugin, or leave "
                "out 'absolute' and 'relative'"
            ) from None

    def encoded(self, block: NDArray[Any], bound: float) -> Encoded:
        """A block as a chunk of a dataset that may differ by so much.

        Raises:
            TaskError: the process died also when it was to compress without loss.
        """
        found = self._asked(block, bound) or self._asked(block, 0.0)
        if found is None:
            raise TaskError(f"cannot compress {block.nbytes} bytes: the process that does so died twice; see to memory")
        return found

    def _asked(self, block: NDArray[Any], bound: float) -> Encoded | None:
        """None: the process died, or did not answer."""
        process = self._running()
        limit = _PATIENCE + block.nbytes / _SLOWEST
        timer = threading.Timer(limit, process.kill)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            pickle.dump((np.ascontiguousarray(block), bound), process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.deaths += 1
            self.close()
            return None
        finally:
            timer.cancel()
        return Encoded(*answer)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        return self._process

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
