"""Profiles: what they give to which command, what comes before it, and what is said of mistakes in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.running import WILKINS, run_tree, write_program
from wilkins import cli, profile
from wilkins.errors import UsageError

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a test be in a folder with a workflow, where ``user`` and ``site`` are the folders of configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "site"))
    for name in ("WILKINS_PROFILE", "WILKINS_HOSTS"):
        monkeypatch.delenv(name, raising=False)
    for folder in ("user", "site"):
        (tmp_path / folder / "wilkins").mkdir(parents=True)
    write_program(tmp_path / "program.sh", "#!/bin/sh\necho $FLAVOUR > flavour\n")
    (tmp_path / "workflow.yaml").write_text(
        "parameters: {dt: {default: 1}, n: {default: 1}}\n"
        "tasks: [{name: one, func: ./program.sh, args: ['${dt}', '${n}'], nprocs: 1}]\n"
    )


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a command, which leaves no variables."""

    def do(*words: str) -> tuple[int, str, str]:
        environment = dict(os.environ)
        try:
            code = cli.main(list(words))
        finally:
            os.environ.clear()
            os.environ.update(environment)
        return (code, *capsys.readouterr())

    return do


def write(name: str, text: str, folder: str = "user/wilkins") -> str:
    path = Path(folder) / name
    path.write_text(text, errors="surrogateescape")
    return str(path.absolute())


def test_a_command_takes_the_options_that_it_has(say: Say) -> None:
    path = write("cluster.yaml", "queue: short\nset: n=3\nenvironment: [a, 'b c']\nstrict: true\nfiles: false\n")
    code, out, _ = say("plan", "--profile", "cluster")
    assert (code, out.splitlines()[-1]) == (
        0,
        f"profile {path}: --queue=short --set=n=3 --environment=a '--environment=b c' --strict",
    )


def test_what_is_typed_comes_first_or_is_added() -> None:
    write("cluster.yaml", "set: [dt=2, n=3]\ntime: 2h\noption: -a\n")
    words = ["submit", "--profile=cluster", "--set=n=4", "--time=1h", "--option=-b"]
    parsed = cli._parsed(words)
    assert (parsed.set, parsed.time, parsed.option) == (["dt=2", "n=3", "n=4"], "1h", ["-a", "-b"])
    assert (parsed.typed.set, parsed.typed.option) == (["n=4"], ["-b"])


@pytest.mark.parametrize("folder", ["user/wilkins", "site/wilkins"])
@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_folders_of_profiles(say: Say, folder: str, ending: str) -> None:
    path = write(f"cluster.{ending}", "time: 2h\n", folder)
    assert profile.found("cluster") == Path(path)
    assert say("plan", "--profile=cluster")[1].endswith(f"profile {path}: --time=2h\n")


def test_ones_own_folder_comes_before_the_sites() -> None:
    write("cluster.yaml", "", "site/wilkins")
    path = write("cluster.yaml", "")
    assert profile.found("cluster") == Path(path)


def test_relative_folders_of_configuration_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("cluster.yaml", "variables: {A: b c}\n", "site/wilkins")
    write("cluster.yaml", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", "user")
    assert profile.found("cluster") == Path(path)
    assert str(profile.read(Path(path))) == f"profile {path}: no options, A='b c'"


def test_a_path_is_a_profile(say: Say) -> None:
    path = write("own.yaml", "# nothing yet\n", ".")
    for name in ("own.yaml", "./own.yaml", path):
        assert say("plan", "--profile", name)[1].endswith(f"profile {path}: no options\n")


def test_the_variable_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    write("cluster.yaml", "set: n=3\n")
    write("other.yaml", "set: n=4\n")
    monkeypatch.setenv("WILKINS_PROFILE", "cluster")
    assert cli._parsed(["run"]).set == ["n=3"]
    assert cli._parsed(["run"]).words == ["run", "--profile=cluster"]
    assert cli._parsed(["run", "--profile=other"]).set == ["n=4"]
    assert cli._parsed(["list"]).site is None


def test_paths_are_relative_to_the_profile() -> None:
    path = write("cluster.yaml", "setup: modules.sh\nhostfile: hosts\n")
    parsed = cli._parsed(["submit", "--profile=cluster"])
    assert parsed.setup == Path(path).with_name("modules.sh")
    assert parsed.site.hostfile == Path(path).with_name("hosts")


def test_hosts_come_after_all_others(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("cluster.yaml", "hostfile: hosts\n")
    write("hosts", "ada:4\n")
    plan = ["plan", "--profile=cluster"]
    assert "ada" in say(*plan)[1]
    assert f"--hostfile={Path(path).with_name('hosts')}" in say(*plan)[1]
    assert "bob" in say(*plan, "--hosts=bob:4")[1]
    monkeypatch.setenv("WILKINS_HOSTS", "eve:4")
    assert "eve" in say(*plan)[1]
    monkeypatch.setenv("PMI_RANK", "0")
    assert cli._hosts(cli._parsed(["run", "--profile=cluster"]))[0].name == "eve"
    monkeypatch.delenv("WILKINS_HOSTS")
    assert cli._hosts(cli._parsed(["run", "--profile=cluster"])) == ()


def test_a_run_has_its_variables(say: Say, tmp_path: Path) -> None:
    write("cluster.yaml", "variables: {FLAVOUR: '${FRUIT:-plain}'}\n")
    assert say("run", "--quiet", "--profile=cluster")[0] == 0
    assert Path("flavour").read_text() == "plain\n"
    given = {"FLAVOUR": "own"}
    assert run_tree([*WILKINS, "run", "--quiet", "--profile=cluster"], 60, tmp_path, given).code == 0
    assert Path("flavour").read_text() == "own\n"


def test_resuming_takes_no_settings(say: Say) -> None:
    write("cluster.yaml", "set: n=3\nfiles: true\nhosts: 'ada:4'\n")
    code, _, said = say("run", "--profile=cluster", "--resume", "never")
    assert code == 2
    assert "never" in said
    assert "leave out" not in said


def test_a_job_runs_with_the_same_profile() -> None:
    from wilkins.submit.arguments import run_words

    path = write("cluster.yaml", "set: n=3\npatience: 5min\nmetrics: ':0'\n")
    parsed = cli._parsed(["submit", "--profile=cluster", "--set=dt=2"])
    assert run_words(parsed.typed, None)[3:] == ("run", "--set=dt=2", f"--profile={path}")


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        (
            "qeue: short\n",
            "1:1",
            "there is no option --qeue of `wilkins run` or `wilkins submit`; did you mean 'queue'?",
        ),
        ("time: 1h\nresume: latest\n", "2:1", "--resume is for one run; give it on the command line"),
        ("scheduler: slrum\n", "1:12", "'scheduler' cannot be 'slrum'; did you mean 'slurm'?"),
        ("nodes: 0\n", "1:8", "'nodes' must be 1 or more, not '0'"),
        ("time: [1h, 2h]\n", "1:7", "'time' takes one value, not a list"),
        ("strict: please\n", "1:9", "'strict' must be true or false, not 'please'"),
        ("account:\n", "1:9", "'account' has no value; it must be a text: the account, project or bank that pays"),
        ("memory: {a: b}\n", "1:9", "'memory' must be a text: memory on each node, such as 16GB, not a mapping"),
        ("queue: ${NO_SUCH}\n", "1:8", "'queue' uses the environment variable 'NO_SUCH', which is not set; export it"),
        ("setup: ''\n", "1:8", "'setup' must be one line, and not empty, not ''"),
        ("queue: |\n  short\n", "1:8", "'queue' must be one line, and not empty, not 'short\\n'"),
        ("hosts: a:1\nhostfile: b\n", "2:1", "give 'hosts' or 'hostfile', not both"),
        ("variables: [A]\n", "1:12", "'variables' must be a mapping of names to texts, not a list"),
        ("variables: {A=B: c}\n", "1:13", "'A=B' cannot be the name of a variable; it holds '=' or a zero byte"),
        ("- queue\n", "1:1", "a profile must be a mapping of options to values, not a list"),
        ("queue: a\nqueue: b\n", "2:1", "the profile: the key 'queue' is given twice"),
        ("queue: 'a\n", "2:1", "not valid YAML"),
        ("queue: a\naccount: gr\udcf6n\n", "2:12", "not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_mistakes_in_a_profile_have_their_place(say: Say, text: str, position: str, why: str) -> None:
    path = write("cluster.yaml", text)
    code, out, said = say("run", "--profile=cluster")
    assert (code, out) == (2, "")
    assert said.startswith(f"{path}:{position}: error: {why}"), said
    assert not Path("wilkins-runs").exists()


def test_a_value_that_an_option_refuses_later(say: Say) -> None:
    path = write("cluster.yaml", "timeout: soon\n")
    code, _, said = say("run", "--profile=cluster")
    assert code == 2
    assert said.rstrip().endswith(f"not 'soon' (the profile {path} gives --timeout)")
    assert said.count("\n") == 1
    assert "profile" not in say("run", "--profile=cluster", "--timeout=later")[2]


@pytest.mark.parametrize(("option", "value"), [("hosts", "a b"), ("set", "nothing.n=3")])
def test_what_is_wrong_with_a_value_names_the_profile(say: Say, option: str, value: str) -> None:
    path = write("cluster.yaml", f"{option}: {value}\n")
    code, _, said = say("plan", "--profile=cluster")
    assert code == 2
    assert said.rstrip().endswith(f" (the profile {path} gives --{option})")
    assert "profile" not in say("plan", "--profile=cluster", f"--{option}=x y")[2]


def test_a_profile_that_is_not_there(say: Say) -> None:
    write("cluster.yaml", "")
    assert "did you mean 'cluster'?" in say("plan", "--profile=clutser")[2]
    with pytest.raises(UsageError, match=r"no profile 'x' in .*/user/wilkins or .*/site/wilkins; write .*/x\.yaml, or"):
        profile.found("x")
    with pytest.raises(UsageError, match=r"--profile \./x: there is no such file"):
        profile.found("./x")
    for name in ("~nosuchuser/x", "x" * 300, "/dev/null/x.yaml"):
        assert say("plan", f"--profile={name}")[0] == 2
    os.mkfifo("pipe.yaml")
    assert "a profile must be an ordinary file" in say("plan", "--profile=pipe.yaml")[2]
    Path("folder.yaml").mkdir()
    code, _, said = say("plan", "--profile=folder.yaml")
    assert (code, "cannot read the profile: Is a directory" in said) == (3, True)
