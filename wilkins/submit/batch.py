"""Writes scripts with PSI/J, and hands them to the scheduler."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Protocol

from wilkins.errors import ResourceError, UsageError, refused
from wilkins.submit.flux import FluxBatch
from wilkins.submit.request import JobRequest
from wilkins.submit.schedulers import Scheduler
from wilkins.submit.script import launch_words, with_options, within_quotes


class Batch(Protocol):
    """The part of a PSI/J executor that is used."""

    def generate_submit_script(self, job: Any, context: dict[str, Any], submit_file: IO[str]) -> None:
        """Write the script of a job."""

    def get_submit_command(self, job: Any, submit_file_path: Path) -> list[str]:
        """The command that submits a script."""

    def job_id_from_submit_output(self, out: str) -> str:
        """The number of the job in what that command says."""


def script_of(job: JobRequest, scheduler: Scheduler) -> str:
    """The batch script of a job.

    Raises:
        UsageError: PSI/J is missing.
    """
    return _script(job, scheduler, *_described(job, scheduler))


def submit(job: JobRequest, scheduler: Scheduler) -> str:
    """Submit a job, whose script stays in the folder of its output; returns its number.

    Raises:
        ResourceError: the script cannot be written, or the scheduler does not take it.
        UsageError: PSI/J is missing.
    """
    batch, described = _described(job, scheduler)
    path = _written(job, _script(job, scheduler, batch, described))
    command = batch.get_submit_command(described, path)
    if scheduler.reads_input:
        command = [word for word in command if word != str(path)]
    try:
        with path.open("rb") as script:
            # What the scheduler tells on the error stream is for the user, while it happens.
            done = subprocess.run(command, stdin=script, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise ResourceError(
            f"{shlex.join(command)}: cannot be started: {error.strerror}; submit where {scheduler.command} is on PATH"
        ) from error
    out = done.stdout.decode(errors="replace")
    if done.returncode:
        raise ResourceError(
            f"{scheduler.title} did not take the job: {shlex.join(command)} ended with {done.returncode}"
            f"{': ' if out.strip() else ''}{out.strip()}; mend what it says, or edit the script and submit that"
        )
    return batch.job_id_from_submit_output(out)


def _described(job: JobRequest, scheduler: Scheduler) -> tuple[Batch, Any]:
    """The writer of the script, and the job as PSI/J describes it."""
    if scheduler.name == "flux":
        return FluxBatch(), None
    try:
        import psij
        import pystache
    except ImportError:
        raise UsageError(
            "wilkins submit writes scripts with PSI/J, which is not installed: pip install 'wilkins[submit]'"
        ) from None
    executor: Any = psij.JobExecutor.get_instance(scheduler.name)
    # PSI/J quotes values for a shell and puts them between double quotes, so that a path with a blank is another one.
    # Here values have the form that their place asks for.
    executor.generator.renderer = pystache.Renderer(escape=str)
    # A process per core, of which none is started: MPI's launchers take that as the number of ranks they may start.
    memory = job.memory or job.expected_memory
    resources = psij.ResourceSpecV1(node_count=job.nodes, processes_per_node=job.cores_per_node, memory=memory)
    attributes = psij.JobAttributes(timedelta(minutes=job.minutes), queue_name=job.queue, account=job.account)
    return executor, psij.Job(psij.JobSpec(name=job.name, resources=resources, attributes=attributes))


def _script(job: JobRequest, scheduler: Scheduler, batch: Batch, described: Any) -> str:
    written = io.StringIO()
    psij = {"launch_command": launch_words(job), "script_dir": within_quotes(str(job.output))}
    batch.generate_submit_script(described, {"job": described, "psij": psij}, written)
    return with_options(written.getvalue(), scheduler.marker, [*scheduler.options(job), *job.lines])


def _written(job: JobRequest, script: str) -> Path:
    try:
        job.output.mkdir(exist_ok=True)
        number, name = tempfile.mkstemp(prefix=f"{job.name.replace('/', '_')}-", suffix=".sh", dir=job.output)
        with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(script)
    except OSError as error:
        raise refused(job.output, "write the job's script there", error) from error
    return Path(name)
