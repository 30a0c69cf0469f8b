"""Completion, as a shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.running import WILKINS

BIN = Path(sys.executable).parent
ASKS = """\
eval "$(wilkins completion bash)"
COMP_WORDS=({line}) COMP_CWORD={word} COMP_LINE='{line}' COMP_POINT={point} COMP_TYPE=9
_python_argcomplete wilkins '{last}' x
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

pytestmark = pytest.mark.needs("python:argcomplete")


def completed(line: str, folder: Path) -> set[str]:
    """What bash would offer at the end of a line."""
    words = line.split(" ")
    script = ASKS.format(line=line, word=len(words) - 1, point=len(line), last=words[-1])
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return {word.strip() for word in done.stdout.splitlines() if word.strip()}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("wilkins tr", {"trace"}),
        ("wilkins s", {"submit", "simulate", "schema"}),
        ("wilkins trace --sk", {"--skip-start"}),
        ("wilkins trace --format p", {"png", "pdf", "perfetto"}),
        ("wilkins ckpt ver", {"verify"}),
        ("wilkins run work", {"workflow.yaml", "work/"}),
        ("wilkins nothing", set()),
    ],
)
def test_a_line_is_completed(line: str, offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").touch()
    (tmp_path / "work").mkdir()
    assert completed(line, tmp_path) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_code(shell: str) -> None:
    done = subprocess.run([*WILKINS, "completion", shell], capture_output=True, text=True, check=True)
    assert "wilkins" in done.stdout
    assert ("complete --command wilkins" if shell == "fish" else "_ARGCOMPLETE=1") in done.stdout


def test_a_shell_that_asks_where_nobody_can_answer() -> None:
    """The package may be gone: the shell hears nothing, and no traceback comes up in its line."""
    words = "import sys; sys.modules['argcomplete'] = None; from wilkins.cli import main; sys.exit(main([]))"
    environment = {**os.environ, "_ARGCOMPLETE": "1", "COMP_LINE": "wilkins r", "COMP_POINT": "9"}
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
