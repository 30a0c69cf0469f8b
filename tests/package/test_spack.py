"""Spack's recipe wants what pip wants."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_recipe_has_the_dependencies_of_the_package() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    asked = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert asked
    wanted = {f"py-{name.lower()}": version for name, version in re.findall(r'"(\w+)>=([0-9.]+)', asked[1])}
    del wanted["py-isal"]  # Spack has none, and Wilkins does without
    recipe = (ROOT / "tools/spack/packages/py_wilkins/package.py").read_text()
    given = re.findall(r'depends_on\("(py-[a-z0-9-]+)@([0-9.]+):", type="run"\)', recipe)
    assert {name: version.removesuffix(".0") for name, version in wanted.items()} == dict(given)
    assert re.search(r'requires-python = ">=(.+)"', project)[1] in recipe  # type: ignore[index]
