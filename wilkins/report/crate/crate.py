"""Puts the crate of a run together, and writes it: https://w3id.org/ro/wfrun/workflow, on RO-Crate 1.1."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from wilkins.doctor.programs import of_words
from wilkins.errors import UsageError, count_of, refused
from wilkins.launch.records.rundir import KEPT, START
from wilkins.names import text_of
from wilkins.plan.plan import TaskPlan, started_ready_made
from wilkins.report.crate.ended import EndedRun, ended_run
from wilkins.report.crate.outputs import Output, digest
from wilkins.report.page.page import page_of

if TYPE_CHECKING:
    from rocrate.model.entity import Entity
    from rocrate.rocrate import ROCrate

_PROFILES = (
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
)
_TERMS = "https://w3id.org/ro/terms/workflow-run#"
_MPI = {"mpich": "MPICH", "openmpi": "Open MPI"}
_SHOWN = {
    ".json": "application/json",
    ".tsv": "text/tab-separated-values",
    ".log": "text/plain",
    ".html": "text/html",
    ".h5": "application/x-hdf5",
    ".hdf5": "application/x-hdf5",
    ".nc": "application/x-netcdf",
}
_WHAT = {
    "summary.json": "How the run ended, and the account of the steps of each channel.",
    "trace.tsv": "What happened when, a line per event.",
    "plan.json": "The plan: the workflow file with all defaults filled in.",
    "versions.json": "Versions of the software, and the host.",
    START: "The command line, the workflow file's text, the programs, and the commit.",
    "layer.log": "What Wilkins noticed inside the programs.",
    "report.html": "A page that shows the run.",
}


def written(run: Path, target: Path, *, with_files: bool = False) -> str:
    """Write the crate of a run, and return what to say of it.

    Args:
        run: its directory, or its name among the runs here.
        target: a folder that is new or empty, or a file ``*.zip``.
        with_files: copy what the run has left on disk, too.

    Raises:
        UsageError: there is no such run, it has not ended, or the crate cannot be there.
        ResourceError: the system refuses to write it.
    """
    known = ended_run(run)
    is_zip = target.suffix == ".zip"
    if not is_zip and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"--crate {target}: is there already; name a new or empty folder, or a file that ends in .zip")
    crate_type = _library()
    with TemporaryDirectory() as folder:
        crate = _Crate(crate_type, known, Path(folder), with_files=with_files).made()
        try:
            if is_zip:
                crate.write_zip(target)
            else:
                crate.write(target)
        except OSError as error:
            raise refused(error.filename or target, "write the run's crate there", error) from error
    size = sum(one.size for one in known.outputs)
    left = count_of(len(known.outputs), "file") + f" ({size} bytes) of the run on disk"
    how = "copied" if with_files else "by path and SHA-256"
    return f"{target}: a Workflow Run RO-Crate of {known.records.folder.name}; {left}, {how}"


def _library() -> type[ROCrate]:
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise UsageError("a crate needs rocrate, which is not installed: pip install 'wilkins[provenance]'") from None
    known: type[ROCrate] = ROCrate
    return known


class _Crate:
    """A crate in the making."""

    def __init__(self, crate_type: type[ROCrate], run: EndedRun, folder: Path, *, with_files: bool) -> None:
        """`folder`: for files that are made for the crate."""
        self._run = run
        self._folder = folder
        self._with_files = with_files
        self._crate = crate_type(version="1.1", gen_preview=False)
        self._crate.metadata.extra_terms.update({"sha256": f"{_TERMS}sha256"})
        self._texts: dict[tuple[str, str], Entity] = {}
        self._agent = self._add("#user", "Person", name=_owner(run.records.folder))

    def made(self) -> ROCrate:
        """The whole."""
        run, crate, root = self._run, self._crate, self._crate.root_dataset
        name = text_of(run.plan.name)
        crate.name = f"{name}: {run.records.folder.name}"
        crate.description = f"A run of the workflow {name} by Wilkins, which couples programs through HDF5 in memory."
        crate.datePublished = datetime.fromtimestamp(run.ended).astimezone()
        root["license"] = self._add(
            "#license",
            "CreativeWork",
            name="not stated",
            description="The records do not say; who made the run decides.",
        )
        root["author"] = self._agent
        root["conformsTo"] = [
            self._add(url, "CreativeWork", name=title, version=version) for url, title, version in _PROFILES
        ]
        workflow = self._workflow()
        outputs = {one.path: self._output(one) for one in run.outputs}
        settings = list(self._settings(workflow))
        self._formal_outputs(workflow, outputs)
        records = [self._record(path) for path in self._records()]
        page = self._folder / "report.html"
        page.write_text(text_of(page_of(run.records)) + "\n", encoding="utf-8")
        records.append(self._file(page, "records/report.html"))
        readme = _README.format(run=run.records.folder.name, command=_shown(run.start.get("command", ())))
        crate.add_file(
            io.BytesIO(readme.encode()),
            "README.md",
            properties={"name": "README", "encodingFormat": "text/markdown", "about": {"@id": "./"}},
        )
        actions = [
            crate.add_action(
                workflow,
                identifier="#run",
                object=_one(settings),
                result=[*outputs.values(), *records],
                properties={"name": f"The run {run.records.folder.name}", **self._of_run()},
            )
        ]
        times = self._times()
        for task, end in zip(run.plan.tasks, run.summary["tasks"], strict=False):
            results = [entity for path, entity in outputs.items() if self._task_of(path) == task.name]
            actions.append(self._task(task, end, times.get(task.name), results))
        root["mentions"] = actions
        return crate

    def _add(self, identifier: str, kind: str | list[str], **properties: Any) -> Entity:
        from rocrate.model.contextentity import ContextEntity

        known = {"@type": kind, **{name: value for name, value in properties.items() if value not in (None, "", [])}}
        found: Entity = self._crate.add(ContextEntity(self._crate, identifier, properties=known))
        return found

    def _value(self, name: str, value: object) -> Entity:
        """A value with a name; one entity for all that have both."""
        key = (name, text_of(str(value)))
        if key not in self._texts:
            identifier = f"#value-{len(self._texts)}"
            self._texts[key] = self._add(identifier, "PropertyValue", name=name, value=key[1])
        return self._texts[key]

    def _workflow(self) -> Entity:
        from rocrate.model.computerlanguage import ComputerLanguage

        run, versions = self._run, self._run.records.versions
        language = self._crate.add(
            ComputerLanguage(
                self._crate,
                identifier="#wilkins",
                properties={"name": "Wilkins", "version": versions.get("wilkins", "")},
            )
        )
        needs = [
            self._add(url, "SoftwareApplication", name=name, version=version, url=url)
            for name, version in versions.items()
            if name in _PACKAGES
            for url in [f"https://pypi.org/project/{name}/{version}/"]
        ]
        needs.append(
            self._add(
                f"https://www.python.org/#{versions.get('python', '')}",
                "SoftwareApplication",
                name="Python",
                version=versions.get("python", ""),
                url="https://www.python.org",
            )
        )
        name = run.plan.source.name
        found: Entity = self._crate.add_workflow(
            io.BytesIO(run.workflow),
            quote(text_of(name)),
            main=True,
            lang=language,
            properties={
                "name": text_of(run.plan.name),
                "sha256": sha256(run.workflow).hexdigest(),
                "contentSize": str(len(run.workflow)),
                "encodingFormat": "application/yaml",
                "url": run.plan.source.as_uri(),
                "description": f"The workflow file, as it was in {run.plan.source.parent}",
                **self._commit(),
            },
        )
        found["softwareRequirements"] = needs
        return found

    def _commit(self) -> dict[str, Any]:
        """The version of the workflow's folder in git."""
        if not (commit := self._run.start.get("commit")):
            return {}
        changed = self._run.summary.get("changed")
        state = "unknown" if changed is None else count_of(len(changed), "file") if changed else "none"
        values = [self._value("git commit", commit), self._value("files changed since that commit", state)]
        values += [self._value("file changed since that commit", name) for name in (changed or ())[:_MOST_CHANGED]]
        return {"version": commit + ("-dirty" if changed else ""), "additionalProperty": values}

    def _settings(self, workflow: Entity) -> Iterator[Entity]:
        """What the command line set."""
        formal = []
        for number, setting in enumerate(self._run.start.get("settings", ())):
            name, _, value = setting.partition("=")
            parameter = self._add(
                f"#parameter-{number}", "FormalParameter", name=text_of(name), additionalType="PropertyValue"
            )
            known = self._add(
                f"#setting-{number}",
                "PropertyValue",
                name=text_of(name),
                value=text_of(value),
                exampleOfWork={"@id": parameter.id},
            )
            parameter["workExample"] = known
            formal.append(parameter)
            yield known
        if formal:
            workflow["input"] = _one(formal)

    def _formal_outputs(self, workflow: Entity, outputs: Mapping[Path, Entity]) -> None:
        """The out-ports whose files are on disk."""
        ports: dict[tuple[str, str], list[Entity]] = {}
        for one in self._run.outputs:
            ports.setdefault((one.task, one.port), []).append(outputs[one.path])
        formal = []
        for number, ((task, port), files) in enumerate(ports.items()):
            what = f"{task}: {port or 'files that its options name'}"
            parameter = self._add(f"#output-{number}", "FormalParameter", name=text_of(what), additionalType="File")
            parameter["workExample"] = _one(files)
            for file in files:
                file["exampleOfWork"] = parameter
            formal.append(parameter)
        if formal:
            workflow["output"] = _one(formal)

    def _task_of(self, path: Path) -> str:
        return next(one.task for one in self._run.outputs if one.path == path)

    def _output(self, one: Output) -> Entity:
        """A file of the run: copied, or only named."""
        properties = {
            "name": text_of(one.path.name),
            "sha256": one.sha256,
            "contentSize": str(one.size),
            "dateModified": _time(one.modified),
            "description": text_of(f"Written by {one.task} as {one.path}"),
            "encodingFormat": _SHOWN.get(one.path.suffix, "application/octet-stream"),
        }
        if self._with_files:
            home = self._run.plan.source.parent
            inner = one.path.relative_to(home) if one.path.is_relative_to(home) else Path(*one.path.parts[1:])
            copied: Entity = self._crate.add_file(one.path, f"outputs/{text_of(str(inner))}", properties=properties)
            return copied
        from rocrate.model.data_entity import DataEntity

        known = {"@type": "File", **properties}
        found: Entity = self._crate.add(DataEntity(self._crate, one.path.as_uri(), properties=known))
        return found

    def _records(self) -> list[Path]:
        folder = self._run.records.folder
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return [path for path in files if KEPT not in path.relative_to(folder).parts]

    def _record(self, path: Path) -> Entity:
        inner = text_of(str(path.relative_to(self._run.records.folder)))
        return self._file(path, f"records/{inner}")

    def _file(self, path: Path, inner: str) -> Entity:
        log = "What a task, or a part of Wilkins, printed." if path.suffix == ".log" else ""
        properties = {
            "name": text_of(path.name),
            "sha256": digest(path),
            "contentSize": str(path.stat().st_size),
            "description": _WHAT.get(path.name, log or "A record of the run."),
        }
        if kind := _SHOWN.get(path.suffix):
            properties["encodingFormat"] = kind
        found: Entity = self._crate.add_file(path, inner, properties=properties)
        return found

    def _of_run(self) -> dict[str, Any]:
        """What the action of the whole run says."""
        run = self._run
        words = run.start.get("command", ())
        known: dict[str, Any] = {
            "description": _shown(words) or "A run of Wilkins",
            "startTime": _time(run.began),
            "endTime": _time(run.ended),
            **_status(run.summary["exit_code"], run.summary.get("reason")),
        }
        values = [("exit code", run.summary["exit_code"]), ("launch", run.plan.launch)]
        values += [("command line", json.dumps(list(words)))] if words else []
        values += [("working folder", run.start["folder"])] if run.start else []
        values += [("resumes", run.plan.resumes)] if run.plan.resumes else []
        values += [("host", host.name) for host in run.plan.hosts] or [("host", run.records.versions.get("host", ""))]
        values.append(("platform", run.records.versions.get("platform", "")))
        known["additionalProperty"] = [self._value(name, value) for name, value in values]
        return {**known, "agent": self._agent}

    def _task(
        self, task: TaskPlan, end: Mapping[str, Any], times: tuple[float, float] | None, results: Sequence[Entity]
    ) -> Entity:
        """What a task did."""
        run = self._run
        began, ended = times or (run.began, run.ended)
        failed = end["outcome"] == "failed"
        values = [("outcome", end["outcome"]), ("exit", end["exit"]), ("ranks", end["nprocs"])]
        values += [("starts", end["starts"]), ("steps published", end["produced"]), ("steps read", end["consumed"])]
        values += [("argument", word) for word in task.args]
        values += [("host", f"{run.plan.hosts[host].name}: {count_of(ranks, 'rank')}") for host, ranks in task.share]
        action: Entity = self._crate.add_action(
            self._program(task),
            identifier=f"#task-{quote(text_of(task.name))}",
            result=_one(results),
            properties={
                "agent": self._agent,
                "name": f"The task {text_of(task.name)}",
                "description": _shown([str(task.executable), *task.args]),
                "startTime": _time(began),
                "endTime": _time(ended),
                **_status(int(failed), end["exit"] if failed else None),
                "additionalProperty": [self._value(name, value) for name, value in values],
            },
        )
        return action

    def _program(self, task: TaskPlan) -> Entity:
        """The program of a task, with its HDF5 and MPI."""
        if name := started_ready_made(task):
            version = self._run.records.versions.get("wilkins", "")
            identifier = f"#ready-made-{name}"
            known = self._crate.dereference(identifier)
            return known or self._add(
                identifier, "SoftwareApplication", name=f"the ready-made task {name}", version=version
            )
        script = next((word for word in task.args if word.endswith(".py")), None)
        path = task.cwd / (script or task.executable)
        identifier = path.as_uri()
        if known := self._crate.dereference(identifier):
            return known
        facts = of_words(str(task.executable), *task.args)
        needs = [_hdf5(self, str(one.version), str(one.file), parallel=one.parallel) for one in facts.hdf5]
        needs += [self._mpi(family, task.mpiexec[0] if task.mpiexec else facts.mpiexec) for family in facts.families]
        properties: dict[str, Any] = {"description": text_of(str(path))}
        try:
            properties |= {"sha256": digest(path), "contentSize": str(path.stat().st_size)}
            if self._has_changed(path):
                properties["description"] += " (changed since the run: the digest is that of the file as it is now)"
        except OSError:
            properties["description"] += " (not there any more)"
        version = properties.get("sha256", "unknown")[:12]
        found = self._add(
            identifier, "SoftwareApplication", name=text_of(path.name), version=version, url=identifier, **properties
        )
        if needs:
            found["softwareRequirements"] = _one(needs)
        return found

    def _has_changed(self, path: Path) -> bool:
        known = self._run.start.get("programs", {}).get(str(path))
        state = path.stat()
        return known is not None and known != [state.st_size, state.st_mtime_ns]

    def _mpi(self, family: str, mpiexec: str) -> Entity:
        version = _mpi_version(mpiexec)
        identifier = Path(mpiexec).absolute().as_uri() if mpiexec else f"#{family}"
        return self._crate.dereference(identifier) or self._add(
            identifier,
            "SoftwareApplication",
            name=_MPI.get(family, family),
            version=version or "unknown",
            url="https://www.mpi-forum.org",
            description=f"Started by {mpiexec}" if mpiexec else "",
        )

    def _times(self) -> dict[str, tuple[float, float]]:
        """By task: when its first program began and its last one ended, where one clock tells."""
        run = self._run
        if run.plan.hosts or "monotonic_ns" not in run.start:
            return {}
        found: dict[str, tuple[float, float]] = {}
        for event in run.records.events:
            if event.event in ("start", "end"):
                at = run.began + (event.time_ns - run.start["monotonic_ns"]) / 1e9
                found[event.task] = (found.get(event.task, (at, at))[0], at)
        return found


_README = """# {run}

A run of a workflow by Wilkins: what was run, with what, and what came of it.
`ro-crate-metadata.json` says what each file is ([Workflow Run RO-Crate](https://w3id.org/ro/wfrun/workflow)).
`records/report.html` shows the run in a browser, and `records/summary.json` has the account of its steps.

The command was:

    {command}
"""
_PACKAGES = ("h5py", "mpi4py", "numpy", "networkx", "PyYAML")
_MOST_CHANGED = 100


def _hdf5(crate: _Crate, version: str, file: str, *, parallel: bool) -> Entity:
    identifier = Path(file).as_uri()
    return crate._crate.dereference(identifier) or crate._add(
        identifier,
        "SoftwareApplication",
        name="HDF5, parallel" if parallel else "HDF5",
        version=version,
        url="https://www.hdfgroup.org/solutions/hdf5/",
        description=text_of(file),
    )


@cache
def _mpi_version(mpiexec: str) -> str:
    """The version of an MPI by what its launcher says; empty if it does not."""
    if not mpiexec:
        return ""
    try:
        done = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"(?:Version:|Open MPI\)|version)\s*v?(\d+\.\d+[\w.-]*)", done.stdout + done.stderr)
    return found[1] if found else ""


def _status(code: int, reason: str | None) -> dict[str, Any]:
    if code == 0:
        return {"actionStatus": "http://schema.org/CompletedActionStatus"}
    failed = {"actionStatus": "http://schema.org/FailedActionStatus"}
    return {**failed, "error": text_of(reason or f"exit code {code}")}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def _shown(words: Sequence[str]) -> str:
    """A command line."""
    return text_of(shlex.join(words))


def _one(values: Sequence[Entity]) -> Any:
    """A single value instead of a list with one: the form that RO-Crate recommends."""
    return values[0] if len(values) == 1 else list(values)


def _owner(folder: Path) -> str:
    """The user whose the records of a run are."""
    try:
        return (folder / "plan.json").owner()
    except KeyError:
        return f"user {(folder / 'plan.json').stat().st_uid}"
