"""The script of a batch job: what a shell makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from wilkins.submit.request import JobRequest
from wilkins.submit.script import launch_words, with_options, within_quotes

LETTERS = "a b'c\"d$HOME`e`\\ü*"


def shell(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a scheduler does, from another folder."""
    file = folder / "script.sh"
    file.write_text(script)
    command = ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), "bash", str(file)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=20, check=False)


def job(folder: Path, *words: str, setup: tuple[str, ...] = ()) -> JobRequest:
    return JobRequest("x", words, folder, folder, cores=1, setup=setup)


def test_words_and_folders_keep_every_letter(tmp_path: Path) -> None:
    folder = tmp_path / LETTERS
    folder.mkdir()
    ran = shell(tmp_path, " ".join(launch_words(job(folder, "printf", "%s|", LETTERS, "$PWD"))))
    assert ran.stdout == f"{LETTERS}|$PWD|"
    ran = shell(tmp_path, " ".join(launch_words(job(folder, "pwd"))))
    assert ran.stdout == f"{folder}\n"


def test_the_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    """Nothing after it is run, as the lines that PSI/J writes there would hide it."""
    script = " ".join(launch_words(job(tmp_path, "sh", "-c", "exit 9"))) + "\necho after\n"
    ran = shell(tmp_path, script)
    assert (ran.returncode, ran.stdout) == (9, "")


def test_the_command_is_the_process_that_the_scheduler_signals(tmp_path: Path) -> None:
    script = "echo $$\n" + " ".join(launch_words(job(tmp_path, "sh", "-c", "echo $$")))
    first, last = shell(tmp_path, script).stdout.split()
    assert first == last


def test_lines_before_the_run_reach_it(tmp_path: Path) -> None:
    setup = ('greet() { export GREETING="$1 it\'s"; }', "greet 'a  b'")
    ran = shell(tmp_path, " ".join(launch_words(job(tmp_path, "printenv", "GREETING", setup=setup))))
    assert ran.stdout == "a  b it's\n"


def test_a_line_that_fails_ends_the_job(tmp_path: Path) -> None:
    ran = shell(tmp_path, " ".join(launch_words(job(tmp_path, "echo", "ran", setup=("(exit 4)",)))))
    assert (ran.returncode, ran.stdout) == (4, "")


def test_a_folder_that_is_gone_ends_the_job_with_its_name(tmp_path: Path) -> None:
    ran = shell(tmp_path, " ".join(launch_words(job(tmp_path / "gone", "echo", "ran"))))
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert f"{tmp_path}/gone" in ran.stderr


@pytest.mark.parametrize("variable", ["PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"])
def test_a_job_is_a_rank_of_nothing(tmp_path: Path, variable: str) -> None:
    words = " ".join(launch_words(job(tmp_path, "sh", "-c", f"echo ${{{variable}-none}}")))
    assert shell(tmp_path, words, **{variable: "0"}).stdout == "none\n"


def test_a_text_between_double_quotes_keeps_every_letter(tmp_path: Path) -> None:
    assert shell(tmp_path, f'printf %s "{within_quotes(LETTERS)}"').stdout == LETTERS


def test_options_come_after_those_that_are_there() -> None:
    script = "#!/bin/bash\n\n#X -a\n\n\n#X -b\n\nbegin\n\nend\n"
    assert with_options(script, "#X", ["-c", "-d e"]) == "#!/bin/bash\n#X -a\n#X -b\n#X -c\n#X -d e\n\nbegin\n\nend\n"
    assert with_options("#!/bin/bash\nbegin\n", "#X", ["-c"]) == "#!/bin/bash\n#X -c\nbegin\n"
