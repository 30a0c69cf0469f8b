"""The pages of the documentation: what they show is run, what they name is there, and they become a site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import pages
from wilkins import profile
from wilkins.errors import WorkflowError
from wilkins.spec.load import load
from wilkins.terminal import help as topics

ROOT = Path(__file__).resolve().parents[2]
SHOWN = [page for page in pages.pages() if any(block.kind == "console" for block in pages.blocks(page))]
NEEDS = {
    "learn/own-programs.md": ("h5cc", "mpiexec", "python:mpi4py"),
    "learn/learning.md": ("python:torch",),
    "guides/doctor.md": ("cc",),
    "guides/static-programs.md": ("cc",),
    "guides/mpi.md": ("mpiexec", "python:mpi4py"),
    "guides/continual.md": ("python:torch",),
    "guides/elastic-training.md": ("python:torch",),
    "guides/models.md": ("python:torch",),
    "guides/pytorch.md": ("python:torch",),
    "guides/spreading.md": ("python:pyeclib",),
    "guides/provenance.md": ("python:rocrate",),
    "guides/submit.md": ("python:psij",),
}
"""What a page takes that not every machine has, as the mark ``needs`` names it."""


LONG = {
    "guides/checkpointing.md",
    "guides/continual.md",
    "guides/models.md",
    "guides/spreading.md",
    "guides/stuck.md",
    "guides/watching.md",
    "learn/learning.md",
}
"""Guides whose programs train, save or wait for long."""


def title(page: Path) -> str:
    return str(page.relative_to(pages.DOCS))


def marks(page: Path) -> list[pytest.MarkDecorator]:
    needs = pytest.mark.needs(*NEEDS.get(title(page), ()))
    return [needs, pytest.mark.nightly] if title(page) in LONG else [needs]


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page), id=title(page)) for page in SHOWN])
@pytest.mark.timeout(200)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """In an empty folder: each file written, each command run, each output compared."""
    folder = tmp_path / "folder"
    folder.mkdir()
    wrong = pages.follow(page, folder, timeout=180)
    assert not wrong, "\n\n".join(wrong)


def test_a_page_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    page = pages.DOCS / "index.md"
    made = tmp_path / "page.md"
    made.write_text(
        "`a.txt`:\n\n```text\na\nb\n```\n\n```console\n$ cat a.txt\na\n...\nb\n$ cat a.txt\na\n...\nc\n"
        "$ false\n$ exit 0\n$ true\n```\n"
    )
    text = page.read_text()
    assert text, "the pages are there"
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "DOCS", tmp_path)
        wrong = pages.follow(made, folder, timeout=20)
    assert [first.splitlines()[0] for first in wrong] == [
        "page.md:13: $ cat a.txt: the page says",
        "page.md:17: $ false: ended with 1",
        "page.md:18: $ exit 0: was not reached",
    ]


@pytest.mark.parametrize("page", pages.pages(), ids=title)
def test_yaml_on_a_page_is_right(page: Path, tmp_path: Path) -> None:
    """Every block of YAML is a workflow file, a list of tasks, or keys of one task; on the page of profiles, one."""
    for block in pages.blocks(page):
        if block.kind != "yaml":
            continue
        text = block.text
        if not re.search(r"^tasks:", text, re.MULTILINE):
            if page.stem == "profiles":
                (tmp_path / "profile.yaml").write_text(text)
                assert profile.read(tmp_path / "profile.yaml").words
                continue
            text = (
                "tasks:\n" + text
                if re.search(r"^ *- ", text)
                else "tasks:\n- func: ./program\n  " + text.replace("\n", "\n  ")
            )
        file = tmp_path / "workflow.yaml"
        file.write_text(text)
        try:
            load(file, [])
        except WorkflowError as error:
            pytest.fail(f"{title(page)}:{block.line}: {error}\n{text}")


def test_help_shows_every_topic() -> None:
    found = topics.topics()
    listed = {str(path.resolve().relative_to(topics.PAGES.resolve())) for path in found.values()}
    assert listed >= set(map(title, SHOWN)), "a page with commands is in no index"
    for name in found:
        assert topics.shown(name).startswith("# ")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_list_of_pages_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = topics.listed().splitlines()
    assert max(map(len, lines)) <= columns
    assert {line.split()[0] for line in lines if re.match("  [a-z]", line)} == set(topics.topics())


def test_messages_name_topics_that_are_there() -> None:
    found = topics.topics()
    named = set()
    for folder in ("wilkins", "flow", "transport", "tasks", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".cpp", ".hpp", ".md"} and "__pycache__" not in path.parts:
                named |= set(re.findall(r"`wilkins help ([a-z0-9-]+)", path.read_text(encoding="utf-8")))
    assert named
    assert named <= set(found)


def test_every_folder_of_tests_is_on_the_page_about_tests() -> None:
    text = (pages.DOCS / "developers" / "testing.md").read_text(encoding="utf-8")
    table = text.partition("| folder |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    found = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0].isalpha()}
    assert named == found


def test_tests_that_a_page_names_are_there() -> None:
    page = pages.DOCS / "developers" / "testing.md"
    rows = [
        line for line in page.read_text(encoding="utf-8").splitlines() if re.search(r"`(?:\w+/)?test_\w+\.py`", line)
    ]
    assert len(rows) >= 17
    for row in rows:
        files = re.findall(r"`((?:\w+/)?test_\w+\.py)`", row)
        text = "".join((ROOT / "tests" / name).read_text(encoding="utf-8") for name in files)
        for name in re.findall(r"`(test_\w+|Test\w+)`", row):
            assert f"def {name}(" in text or f"class {name}:" in text, (name, files)


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
@pytest.mark.timeout(200)
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Links, anchors, the reference of the Python interface; and a page loads nothing from elsewhere."""
    words = ("--quiet", "--fail-on-warning", "--keep-going", "docs", tmp_path)
    done = subprocess.run([sys.executable, "-m", "sphinx", *map(str, words)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = re.compile(r"""<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)=["']https?:""")
    assert not [page.name for page in tmp_path.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))]
    assert (tmp_path / "search.html").exists()
    assert (tmp_path / "wilkins.schema.json").exists()
