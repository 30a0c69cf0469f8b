"""Gives out the numbers of a run: in a file that is replaced every second, and at an address for Prometheus.

The launcher's thread takes a look, writes the file, and leaves the look where the thread of the address finds it. That
thread only reads, so whoever asks holds up nobody.
"""

from __future__ import annotations

import contextlib
import errno
import http.server
import json
import re
import selectors
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from wilkins import atomic
from wilkins.errors import ResourceError, UsageError, WilkinsError, cure, refused
from wilkins.launch.metrics.families import Form, Look, RunFacts, families_of, text
from wilkins.launch.metrics.usage import Usage, Usages
from wilkins.plan.plan import Plan
from wilkins.transport.report_table import Report
from wilkins.values import dataclass, replace

_SHARE = 100
"""A look is taken at most so often that it takes one part in so many of a core."""
_CLIENT_WITHIN = 5.0
"""Seconds that whoever asks may take."""
_LEFT = 0.5
"""Seconds for an answer that is under way when the run ends."""
_LOCAL = "127.0.0.1"
_OPENMETRICS = "application/openmetrics-text"
_TYPES: dict[Form, str] = {
    "openmetrics": f"{_OPENMETRICS}; version=1.0.0; charset=utf-8",
    "prometheus": "text/plain; version=0.0.4; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the numbers can be asked for."""

    host: str
    port: int
    """0: the system chooses one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(word: str) -> Address | Path:
    """What ``--metrics`` names: an address, as `PORT`, `:PORT` or `ADDRESS:PORT`, or else a file.

    Raises:
        UsageError: there is no such port.
    """
    found = re.fullmatch(r"(?:([^/]*):)?(\d+)", word)
    if found is None:
        return Path(word)
    if int(found[2]) > 65535:
        raise UsageError(f"--metrics {word}: a port is at most 65535; give another, such as :9464, or a file")
    return Address((found[1] or _LOCAL).strip("[]"), int(found[2]))


def check(words: Sequence[str]) -> None:
    """Find out, before anything is started, whether the numbers can go where the command line says.

    Raises:
        ResourceError: a file cannot be written, or an address is in use or not one of this machine.
        UsageError: a word names nothing that can be.
    """
    for word in words:
        target = target_of(word)
        if isinstance(target, Address):
            _listening(target).server_close()
            continue
        if target.is_dir():
            raise UsageError(f"--metrics {word}: is a folder; name a file in it, such as {target / 'wilkins.prom'}")
        try:
            with contextlib.suppress(_BegunError), atomic.replacing(target):
                raise _BegunError
        except OSError as error:
            raise refused(target, "write the run's metrics there", error) from error


class _BegunError(WilkinsError):
    """The file could be begun, which is all that was asked."""


class Exporter:
    """Gives out the numbers of one run."""

    def __init__(self, plan: Plan, folder: Path, words: Sequence[str]) -> None:
        """`folder`: the run's directory; `words`: where to, as ``--metrics`` has them.

        Raises:
            ResourceError, UsageError: see `check`.
        """
        versions = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
        run = RunFacts(folder.name, versions.get("wilkins", ""), versions["host"], time.time())
        self._look = Look(plan, run, None)
        self._due = 0.0
        self._failed = False
        # Elsewhere, this launcher has not started all programs.
        self._usages = Usages() if plan.launch == "alone" and not plan.hosts else None
        targets = list(map(target_of, words))
        self._files = [target for target in targets if isinstance(target, Path)]
        self._servers: list[_Server] = []
        for target in targets:
            if isinstance(target, Address):
                server = _listening(target)
                server.look = self._look
                self._servers.append(server)
        for server in self._servers:
            server.start()

    @property
    def addresses(self) -> list[str]:
        """Where the numbers can be asked for."""
        return [f"http://{Address(server.server_name, server.server_port)}/metrics" for server in self._servers]

    def put(self, report: Report, pids: Mapping[int, int]) -> str:
        """Give out a report, unless the last one was so dear that it is too early; returns what the user should know.

        Args:
            pids: by task, the processes of its programs that this launcher has started.
        """
        began = time.monotonic()
        if began < self._due:
            return ""
        usages = self._usages.take(pids) if self._usages else {}
        said = self._give(replace(self._look.run, at=time.time()), report, usages)
        now = time.monotonic()
        self._due = now + _SHARE * (now - began) - 1.0
        return said

    def end(self, report: Report | None, code: int) -> str:
        """Give out the last report, and end; returns what the user should know.

        Args:
            report: None: there is none.
            code: what the run exits with.
        """
        now = time.time()
        run = replace(self._look.run, at=now if report else self._look.run.at, ended=now, code=code)
        usages = self._usages.take({}) if self._usages else {}
        said = self._give(run, report or self._look.report, usages)
        for server in self._servers:
            server.stop()
        self._servers = []
        return said

    def _give(self, run: RunFacts, report: Report | None, usages: Mapping[int, Usage]) -> str:
        self._look = replace(self._look, run=run, report=report, usages=usages)
        for server in self._servers:
            server.look = self._look
        if not self._files:
            return ""
        families = families_of(self._look)
        errors = [error for file in self._files if (error := _put(file, text(families, form_of(file), run.name)))]
        is_known, self._failed = self._failed and run.code is None, bool(errors)
        return "" if is_known else "\n".join(errors)


def form_of(file: Path) -> Form:
    """The form of a file: node exporter reads ``*.prom``, and does not know OpenMetrics."""
    return "prometheus" if file.suffix == ".prom" else "openmetrics"


def _put(file: Path, said: str) -> str:
    """Write a file; returns why that is impossible."""
    try:
        atomic.put(file, said)
    except OSError as error:
        return str(refused(file, "write the metrics of the run", error))
    return ""


class _Server(http.server.HTTPServer):
    """Answers one at a time, from the last look."""

    look: Look
    timeout = 0.0
    """Who has left again is not waited for."""

    def __init__(self, address: Address) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Handler)

    def start(self) -> None:
        """Answer from a thread of its own until `stop`."""
        self._wakes, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True, name="metrics")
        # Signals are for the launcher's thread, which a system call of another one would not wake.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self) -> None:
        """Answer no more. Whoever is being answered has a moment left."""
        self._wakes.close()
        self._thread.join(_LEFT)
        self.server_close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._woken:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while all(key.fileobj is self for key, _ in selector.select()):
                self.handle_request()

    def server_bind(self) -> None:
        """Without a question to the name service, which the class that this one extends asks."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: whoever asked has left."""


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers a question for the numbers."""

    server: _Server
    timeout = _CLIENT_WITHIN

    def do_GET(self) -> None:
        """The numbers, or where they are."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            form: Form = "openmetrics" if _OPENMETRICS in self.headers.get("Accept", "") else "prometheus"
            look = self.server.look
            self._answer(HTTPStatus.OK, _TYPES[form], text(families_of(look), form, look.run.name))
        elif path == "/":
            self._answer(HTTPStatus.OK, "text/plain; charset=utf-8", "the numbers of a run of Wilkins: /metrics\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", "there is only /metrics\n")

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, kind: str, said: str) -> None:
        body = said.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Of the server."""
        return "wilkins"

    def log_message(self, *_: object) -> None:
        """Note nothing."""


def _listening(address: Address) -> _Server:
    try:
        return _Server(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            mend = "another program or run listens there; give another port, or :0 for one that is free"
        elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            mend = "give an address of this machine, or only a port, such as :9464"
        else:
            mend = cure(error)
        raise ResourceError(
            f"--metrics {address}: cannot serve the run's metrics there: {error.strerror}; {mend}"
        ) from error
