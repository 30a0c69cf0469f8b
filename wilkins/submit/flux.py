"""Flux by its own commands: PSI/J hands it jobs by Flux's Python, without a script, a queue or an account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any


class FluxBatch:
    """Writes and submits the scripts of ``flux batch``, as PSI/J's executors do for other schedulers."""

    def generate_submit_script(self, job: object, context: Mapping[str, Any], submit_file: IO[str]) -> None:  # noqa: ARG002
        """Write a script that runs a command, with its output in a file that has the job's number."""
        folder, words = context["psij"]["script_dir"], context["psij"]["launch_command"]
        submit_file.write(f'#!/bin/bash\n# flux: --output="{folder}/{{{{id}}}}.out"\n\n{" ".join(words)}\n')

    def get_submit_command(self, job: object, submit_file_path: Path) -> list[str]:  # noqa: ARG002
        """The command that submits a script."""
        return ["flux", "batch", str(submit_file_path)]

    def job_id_from_submit_output(self, out: str) -> str:
        """The number of the job in what that command says."""
        return out.split()[-1]
