"""``wilkins top --web``: the page of a run in a browser while the run goes on.

The page is the report's. What tasks do now comes to it once a second, as `wilkins top` shows it; all else is drawn
again from the records, so often that this takes at most a hundredth of a core. When the run ends, the page is the
report. Nothing can be changed by it, and nobody sees it who does not have its address.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from wilkins.errors import UsageError
from wilkins.names import text_of
from wilkins.report.page.page import page_of, records_of
from wilkins.report.watched import EVERY, HEAD, Watched, rows_of
from wilkins.terminal import streams
from wilkins.terminal.tables import binary_size

_HOST = "127.0.0.1"
_PAGE_EVERY = 2.0
_SHARE = 0.01
"""Of a core, for drawing the page again and again."""
_FETCHED_WITHIN = 10.0
"""Seconds after the end of a run within which open pages have become its report."""
_ALIVE_EVERY = 15.0
"""Seconds after which something is sent to a browser in any case, so that one that has gone is noticed."""


class _State(NamedTuple):
    """What browsers are shown."""

    now: str = ""
    """What tasks do, as JSON."""
    page: str = ""
    drawn: int = 0
    """How often the page was drawn."""
    over: bool = False


class _Shown:
    """What browsers are shown, as it changes, and how many look."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._state = _State()
        self._looking = 0

    def change(self, **what: Any) -> None:
        """Show something else."""
        with self._changed:
            self._state = self._state._replace(**what)
            self._changed.notify_all()

    @property
    def state(self) -> _State:
        """What is shown now."""
        return self._state

    def after(self, seen: _State) -> _State:
        """What is shown as soon as it is not the same, or after a while."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not seen, _ALIVE_EVERY)
            return self._state

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """A browser looks."""
        with self._changed:
            self._looking += 1
        try:
            yield
        finally:
            with self._changed:
                self._looking -= 1
                self._changed.notify_all()

    def let_go(self, within: float) -> None:
        """Wait until nobody looks any more, at most so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._looking, within)


class _Server(ThreadingHTTPServer):
    """Serves one run."""

    daemon_threads = True

    def __init__(self, port: int, shown: _Shown) -> None:
        self.shown = shown
        self.token = secrets.token_urlsafe(16)
        super().__init__((_HOST, port), _Request)

    @property
    def address(self) -> str:
        """Of the page."""
        return f"http://{_HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle of an answer is no error."""


class _Request(BaseHTTPRequestHandler):
    """One request of a browser."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answer with the page, or with events until it is closed."""
        # A page of another site may have a name that leads here, but not this one.
        if self.headers.get("Host", "") not in {f"{name}:{self.server.server_port}" for name in (_HOST, "localhost")}:
            return self.send_error(HTTPStatus.FORBIDDEN)
        _, token, *rest = self.path.split("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()) or len(rest) != 1:
            return self.send_error(HTTPStatus.NOT_FOUND)
        if rest == [""]:
            return self._answer("text/html; charset=utf-8", self.server.shown.state.page.encode())
        if rest == ["events"]:
            return self._send_events()
        return self.send_error(HTTPStatus.NOT_FOUND)

    def _head(self, kind: str, **more: str) -> None:
        self.send_response(HTTPStatus.OK)
        fixed = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
        for name, value in {"Content-Type": kind, **fixed, **more}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _answer(self, kind: str, content: bytes) -> None:
        self._head(kind, Content_Length=str(len(content)))
        self.wfile.write(content)

    def _send_events(self) -> None:
        """As the HTML standard has server-sent events."""
        self.close_connection = True
        with self.server.shown.looking():
            self._head("text/event-stream", Connection="close")
            seen = _State()
            while not seen.over:
                state = self.server.shown.after(seen)
                lines = [": still here"]
                if state.now != seen.now:
                    lines.append(f"event: now\ndata: {state.now}\n")
                if state.drawn != seen.drawn:
                    lines.append(f"event: page\ndata: {state.drawn}\n")
                if state.over:
                    lines.append("event: over\ndata: 1\n")
                self.wfile.write("".join(f"{line}\n" for line in lines).encode())
                self.wfile.flush()
                seen = state

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the user's."""


def serve(run: Watched, port: int) -> str | None:
    """Serve the page of a run until that ends, or until Ctrl-C.

    Args:
        port: of the page's address; 0: any that is free.

    Returns how the run has ended; None if it goes on.

    Raises:
        UsageError: the port is taken.
        ResourceError: the run's launcher does not answer.
    """
    shown = _Shown()
    try:
        server = _Server(port, shown)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--port {port}: the page cannot be served there: {reason}; leave --port out") from error
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        _draw(run, shown, live=True)
        due = time.monotonic() + _PAGE_EVERY  # the first time took longer, with all that is imported
        thread.start()
        streams.show(f"{server.address}: open it in a browser on this machine; it ends with the run, or with Ctrl-C")
        end = None
        try:
            while (end := run.over()) is None:
                if run.look():
                    shown.change(now=_now(run))
                if time.monotonic() >= due:
                    due = _draw(run, shown, live=True)
                time.sleep(EVERY)
            _draw(run, shown, live=False)
            shown.change(over=True)
            shown.let_go(_FETCHED_WITHIN)
            time.sleep(EVERY)  # the pages that were let go fetch the report now
        except KeyboardInterrupt:
            pass
        finally:
            server.shutdown()
            thread.join()
    return end


def _draw(run: Watched, shown: _Shown, *, live: bool) -> float:
    """Draw the page; when that may be done again, in monotonic time."""
    began = time.thread_time()
    page = page_of(records_of(run.path), live=live)
    shown.change(page=page, drawn=shown.state.drawn + 1)
    return time.monotonic() + max(_PAGE_EVERY, (time.thread_time() - began) / _SHARE)


def _now(run: Watched) -> str:
    newest = run.history.newest
    rows = [[text_of(cell) for cell in row] for row in rows_of(run.history)]
    return json.dumps({"head": HEAD, "rows": rows, "memory": binary_size(newest.memory)})
