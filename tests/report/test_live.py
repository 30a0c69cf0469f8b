"""`wilkins top --web`: the report of a run in a browser while the run goes on, for nobody but who has its address."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hosts import pseudo
from report.endless import READ, WRITE

from support.running import WILKINS, Tree, run_tree, started_tree, wait_for, write_program

needs_browser = pytest.mark.needs("chromium", "chromedriver", "python:selenium")
pytestmark = pytest.mark.timeout(120)

WORKFLOW = """\
tasks:
  - {func: ./write.py, outports: [{filename: "step*.h5"}]}
  - {func: ./read.py, inports: [{filename: "step*.h5"}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a workflow that goes on until there is a file `enough`."""
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(tmp_path / name, text)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW, encoding="utf-8")
    return tmp_path


@contextmanager
def shown(folder: Path, *options: str) -> Iterator[tuple[Tree, Tree, str]]:
    """The run, what shows it, and the address. `options`: of the run."""
    environment = {"WILKINS_RSH": str(pseudo.HERE)} if options else {}
    with started_tree([*WILKINS, "run", "--quiet", *options, "workflow.yaml"], folder, environment) as run:
        wait_for(lambda: (folder / "wilkins-runs/latest/plan.json").exists(), 30, "the run")
        viewer = folder / "viewer"
        viewer.mkdir()
        said = viewer / ".stdout"
        with started_tree([*WILKINS, "top", "--web", "../wilkins-runs/latest"], viewer) as top:
            wait_for(lambda: ": open it in a browser" in said.read_text(), 30, "the address")
            yield run, top, said.read_text().partition(": open")[0]


def asked(address: str, path: str = "", *, method: str = "GET", host: str = "") -> tuple[int, str]:
    """The status and the content of an answer."""
    found = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=20)
    try:
        connection.request(method, path or found.path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def events_of(address: str) -> Iterator[tuple[str, Any]]:
    """The events, as a browser gets them."""
    found = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=20)
    connection.request("GET", f"{found.path}events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    name = ""
    for line in map(bytes.decode, answer):
        word, _, rest = line.strip().partition(": ")
        if word == "event":
            name = rest
        elif word == "data":
            yield name, json.loads(rest)


def test_the_report_grows_as_the_run_goes_on_and_is_the_report_then(folder: Path) -> None:
    with shown(folder) as (run, top, address):
        steps: list[int] = []
        names = []
        for name, data in events_of(address):
            names.append(name)
            if name == "now":
                assert [row[0] for row in data["rows"]] == ["write", "read"]
                steps.append(int(data["rows"][1][data["head"].index("steps")]))
            elif name == "page" and data == 3:
                status, page = asked(address)
                assert status == 200
                assert ">goes on<" in page
                assert "steps read" in page  # in the graph, before there is a summary
                assert "wrote 1 &lt;b&gt;" in page
                (folder / "enough").touch()
        assert steps == sorted(steps)
        assert steps[-1] > steps[0]
        assert names[-1] == "over"
        status, page = asked(address)  # as the page that is told so does
        assert status == 200
        assert "ended well" in page
        assert "EventSource" not in page
        assert run.wait(30).code == 0
        ended = top.wait(30)
        assert (ended.code, "the run has ended after" in ended.out) == (0, True)


@pytest.mark.nightly
def test_a_run_on_several_hosts(folder: Path) -> None:
    """Its graph counts what was read over the network."""
    with shown(folder, "--hosts", "a:1,b:1") as (run, top, address):
        rows: list[list[str]] = []
        for name, data in events_of(address):
            if name == "now":
                rows = data["rows"]
            elif name == "page" and data == 4:
                page = asked(address)[1]
                assert ">goes on<" in page
                assert re.search(r"[1-9][0-9]* steps? read, [0-9.]+ kB", page)
                (folder / "enough").touch()
        assert [row[0] for row in rows] == ["write", "read"]
        assert "Over the network" in asked(address)[1]
        assert run.wait(30).code == 0
        assert top.wait(30).code == 0


def test_nobody_else_sees_it_and_nothing_can_be_changed(folder: Path) -> None:
    with shown(folder) as (run, top, address):
        found = urlsplit(address)
        token = found.path.strip("/")
        assert len(token) >= 20
        for path in ("/", "//", f"/{token}", f"/{token[:-1]}/", f"/{token}/../", f"/{token}/plan.json", "/x/events"):
            assert asked(address, path)[0] == 404, path
        assert asked(address, host="example.org")[0] == 403  # a name of another site that leads to this machine
        assert asked(address, host=f"example.org:{found.port}")[0] == 403
        assert asked(address, host=f"localhost:{found.port}")[0] == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert asked(address, method=method)[0] == 501
        for other in {str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}:
            if not other.startswith("127."):
                with pytest.raises(OSError, match="refused"):
                    socket.create_connection((other, found.port or 0), 5).close()
        top.process.send_signal(signal.SIGINT)
        ended = top.wait(30)
        assert (ended.code, ended.err) == (0, "")
        (folder / "enough").touch()
        assert run.wait(30).code == 0


def test_a_port_that_is_taken_and_one_without_a_page(folder: Path) -> None:
    with shown(folder) as (run, _, address):
        port = str(urlsplit(address).port)
        here = folder / "third"
        here.mkdir()
        words = [*WILKINS, "top", "../wilkins-runs/latest"]
        taken = run_tree([*words, "--web", "--port", port], 30, here)
        assert taken.code == 2
        assert f"--port {port}: the page cannot be served there: Address already in use" in taken.said
        odd = run_tree([*words, "--web", "--port", "70000"], 30, here)
        assert (odd.code, "--port 70000: the page cannot be served there" in odd.said) == (2, True)
        alone = run_tree([*words, "--port", port], 30, here)
        assert (alone.code, "give --web, too" in alone.said) == (2, True)
        (folder / "enough").touch()
        assert run.wait(30).code == 0
    ended = run_tree([*WILKINS, "top", "--web"], 30, folder)
    assert (ended.code, "the run has ended" in ended.out) == (0, True)


@pytest.mark.nightly
@needs_browser
def test_in_a_browser(folder: Path, browser: Any) -> None:
    """A part of the timeline that somebody looks at stays, a log that is open grows."""
    from selenium.webdriver.common.by import By

    def text(of: str) -> str:
        return str(browser.execute_script(f"return document.querySelector({of!r}).innerText"))

    with shown(folder) as (run, top, address):
        browser.get(address)
        wait_for(lambda: "write" in text("#now"), 20, "what tasks do")
        before = text("#now")
        wait_for(lambda: text("#now") != before, 20, "what they do later")
        # In one call: the page may put another one there between two.
        browser.execute_script("document.querySelector(\"details[data-log='write.log'] summary\").click()")
        log = text("details[data-log='write.log'] pre")
        wait_for(lambda: len(text("details[data-log='write.log'] pre")) > len(log), 20, "a log that grows")
        end = text("#range")
        wait_for(lambda: text("#range") != end, 20, "a timeline that grows")
        browser.find_element(By.ID, "in").click()
        time.sleep(0.5)
        part = text("#range")
        graph = text("#graph")
        wait_for(lambda: text("#graph") != graph, 30, "a graph that counts")
        assert text("#range") == part
        (folder / "enough").touch()
        wait_for(lambda: "ended well" in text("header"), 30, "the report")
        assert top.wait(30).code == 0
        assert run.wait(30).code == 0
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
