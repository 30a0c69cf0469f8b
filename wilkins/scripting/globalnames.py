"""The global names that a function or class uses, as its text shows. No I/O."""

from __future__ import annotations

import ast
import copy
import symtable
from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """Global names that a definition uses."""

    early: frozenset[str]
    """As it is made: in decorators, defaults, bases and class bodies."""
    late: frozenset[str]
    """As it is called."""
    hints: frozenset[str]
    """In annotations only."""
    own: frozenset[str]
    """Those that it makes itself, by ``global``."""


def needs(node: ast.stmt) -> Needs:
    """The global names that a definition uses."""
    bare = _WithoutHints().visit(copy.deepcopy(node))
    used, own = _globals(bare)
    hints, _ = _globals(node)
    early, _ = _globals(_WithoutBodies().visit(bare))
    return Needs(frozenset(early), frozenset(used - early), frozenset(hints - used), frozenset(own))


class _WithoutHints(ast.NodeTransformer):
    """Takes the annotations out."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


class _WithoutBodies(ast.NodeTransformer):
    """Leaves of functions what is executed as they are defined."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [ast.Pass()]
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.body = [ast.Pass()]
        return node


def _globals(node: ast.AST) -> tuple[set[str], set[str]]:
    """The global names that a statement uses, and those that functions in it assign to."""
    used: set[str] = set()
    own: set[str] = set()
    outermost = symtable.symtable(ast.unparse(node), "<task>", "exec")
    tables = [outermost]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            is_global = not symbol.is_assigned() if table is outermost else symbol.is_global()
            if is_global and symbol.is_referenced():
                used.add(symbol.get_name())
            if is_global and symbol.is_assigned():
                own.add(symbol.get_name())
    changed = {
        one.target.id for one in ast.walk(node) if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name)
    }
    return used | (changed & own), own
