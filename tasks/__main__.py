"""Runs a ready-made task: what its processes execute, with the task's name, and its options and ports as JSON."""

import importlib
import importlib.util
import json
import sys
import time
import traceback
from pathlib import Path

_PATIENCE = 10.0
"""Seconds in which the rank that has found the error ends the others. Only after that they print their own."""


def _message(error: Exception) -> str:
    """The message for the user. An operating system's own words do not say what to mend."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: cannot be read or written: {error.strerror}; mend the path, or its rights"
    return str(error)


if __name__ == "__main__":
    del sys.path[0]  # modules beside this file must not hide others
    if importlib.util.find_spec("wilkins") is None:  # a checkout that only this file's path leads to
        sys.path.append(str(Path(__file__).parents[2]))
    name, options, ports = sys.argv[1:]
    from wilkins.errors import WilkinsError
    from wilkins.tasks.errors import ReportedElsewhere
    from wilkins.tasks.ranks import end, ranks
    from wilkins.tasks.registry import Ports, all_tasks

    here = ranks()
    inports, outports, folder = json.loads(ports)
    try:
        importlib.import_module(all_tasks()[name].module).main(
            json.loads(options), Ports(tuple(inports), tuple(outports), folder), here
        )
    except (OSError, WilkinsError) as error:
        if isinstance(error, ReportedElsewhere):
            time.sleep(_PATIENCE)
        print(f"wilkins.tasks.{name}: error: {_message(error)}", file=sys.stderr, flush=True)
        end(here, 1)  # also the ranks that wait for this one
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        end(here, 1)  # a rank that ended by itself would wait in MPI for the others, and they for it
