"""How Sphinx builds the documentation: `make site`."""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext import autodoc
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.transforms import SphinxTransform

import wilkins
from wilkins.spec.editors import put_schema

project = "Wilkins"
author = "the Wilkins developers"
version = release = wilkins.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["conf.py"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Wilkins"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_mock_imports = [name for name in ("torch",) if importlib.util.find_spec(name) is None]
pygments_style = "friendly"
pygments_dark_style = "monokai"

_TOPIC = re.compile(r"wilkins help ([a-z0-9-]+)")
_LAZY = ("wilkins.transport", "wilkins.tasks.checkpoint", "wilkins.tasks.continual")
"""Packages that import a public name when it is first asked for, which autodoc does not."""


class HelpLinks(SphinxTransform):
    """Makes links to pages of the commands that show these pages, `wilkins help TOPIC`."""

    default_priority = 210

    def apply(self, **_: Any) -> None:
        """Wrap each such literal in a reference to the page."""
        pages = {Path(name).name: name for name in self.env.found_docs}
        for literal in list(self.document.findall(nodes.literal)):
            found = _TOPIC.fullmatch(literal.astext())
            if found and found[1] in pages and not isinstance(literal.parent, nodes.reference | addnodes.pending_xref):
                link = addnodes.pending_xref(
                    "", refdomain="std", reftype="doc", reftarget=f"/{pages[found[1]]}", refexplicit=True, refwarn=True
                )
                link["refdoc"] = self.env.docname
                literal.replace_self(link)
                link.append(literal)


def sections(_: Sphinx, what: Any, name: str, documented: object, options: object, lines: list[str]) -> None:
    """Turn ``Args:``, ``Returns:`` and ``Raises:`` of a docstring into fields. An attribute's has none."""
    if what not in ("attribute", "data", "property"):
        lines[:] = GoogleDocstring(lines, what=what, name=name, obj=documented, options=options).lines()


def publish_schema(app: Sphinx, problem: Exception | None) -> None:
    """Put the schema of workflow files, for editors, beside the pages."""
    if problem is None and app.builder.format == "html":
        put_schema(Path(app.outdir))


def setup(app: Sphinx) -> None:
    """Add what this project's pages need."""
    with autodoc.mock(autodoc_mock_imports):
        for package in map(import_module, _LAZY):
            for name in package.__all__:
                setattr(package, name, getattr(package, name))
    app.add_transform(HelpLinks)
    app.connect("autodoc-process-docstring", sections)
    app.connect("build-finished", publish_schema)
