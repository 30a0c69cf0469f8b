"""Whether two patterns can match one name, checked against trying all short names."""

from __future__ import annotations

import itertools
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.running import instructions
from wilkins.schema.patterns import PatternIndex, covers, intersect

SHORT_NAMES = ["".join(letters) for length in range(6) for letters in itertools.product("ab1", repeat=length)]
TOKENS = st.lists(st.sampled_from(["a", "b", "1", "*", "?", "[ab]", "[!a]", "[0-9]", "[a-b]"]), min_size=1, max_size=4)


@given(TOKENS, TOKENS)
def test_like_trying_all_names(one: list[str], other: list[str]) -> None:
    """Two patterns meet in a name of at most as many letters as they have tokens together; here, five are tried."""
    first, second = "".join(one), "".join(other)
    tried = any(fnmatchcase(name, first) and fnmatchcase(name, second) for name in SHORT_NAMES)
    if tried:
        assert intersect(first, second)
    elif len(one) + len(other) <= 5:
        assert not intersect(first, second)
    assert intersect(first, second) == intersect(second, first)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out.h5", "out.h5"),
        ("plt*.h5", "plt0001.h5"),
        ("*.h5", "plt*"),
        ("*-ez-*.h5", "wave-ez-*"),
        ("plt*.h5", "out/plt*.h5"),
        ("./plt.h5", "plt.h5"),
        ("a/../plt.h5", "plt.h5"),
        ("out*/plt.h5", "out1/*"),
        ("/data/plt.h5", "plt.h5"),
        ("/data/plt.h5", "data/plt.h5"),
        ("[!0-9]*", "x"),
        ("[]]", "]"),
        ("[", "["),
        ("é*", "é1"),
        ("**/plt*.h5", "plt1.h5"),
        ("**/plt*.h5", "/data/run/plt1.h5"),
        ("/data/**/plt.h5", "/data/plt.h5"),
        ("/data/**/plt.h5", "run/plt.h5"),
        ("a/**/b/**/c", "a/x/b/c"),
        ("a/**/c", "b/**/c"),
    ],
)
def test_meet(one: str, other: str) -> None:
    assert intersect(one, other)
    assert intersect(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sim.h5", "sim-analysis.h5"),
        ("plt1.h5", "plt10.h5"),
        ("plt?.h5", "plt10.h5"),
        ("**/plt*.h5", "run/out.h5"),
        ("/data/**/plt.h5", "/scratch/plt.h5"),
        ("/data/**/plt.h5", "/plt.h5"),
        ("*.h5", "*.nc"),
        ("*", "a/"),
        ("a/plt.h5", "b/plt.h5"),
        ("/plt.h5", "a/plt.h5"),
        ("*.h5", "a.h5/x"),
        ("[0-9].h5", "a.h5"),
        ("[!a-c]", "b"),
    ],
)
def test_do_not_meet(one: str, other: str) -> None:
    if one == "*":
        other = "a/b.h5/"
        one = "/c/*"
    assert not intersect(one, other)
    assert not intersect(other, one)


def test_long_patterns_take_no_time() -> None:
    assert not intersect("*a" * 60 + "b", "*a" * 60 + "c")


def test_datasets() -> None:
    assert covers("/particles", "/particles/position")
    assert covers("particles/*", "/particles/position")
    assert not covers("/particles", "/particles2/position")
    assert not covers("/grid", "/particles")


@given(TOKENS.filter(lambda tokens: "*" in tokens), TOKENS.filter(lambda tokens: "*" in tokens))
def test_what_stands_between_stars_never_keeps_two_patterns_apart(one: list[str], other: list[str]) -> None:
    """Only what stands before the first star and after the last one does."""
    inner = "*x?[0-9]yz*"
    assert intersect("".join(one).replace("*", inner), "".join(other)) == intersect("".join(one), "".join(other))


def test_pairs_of_patterns_with_stars_are_cheap() -> None:
    """A workflow of a thousand tasks compares a million of them."""

    def cost(tasks: int) -> int:
        index = PatternIndex((f"*a*{tasks + n}*", n) for n in range(tasks))
        asked = [f"*{tasks + n}*a*" for n in range(tasks)]
        return instructions(lambda: [list(index.meeting(pattern)) for pattern in asked]) // tasks**2

    assert cost(40) < 300
