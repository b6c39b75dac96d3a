"""A fingerprint of the code that measures, so that no number of an older program is taken for new.

Comments, docstrings and layout do not count, nor does any file that the measurement never imports.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

PACKAGE = "contrastive_ucb"
HERE = Path(__file__).parents[1]
ROOTS = (  # the agents are imported when they are made, so they are named here
    f"{PACKAGE}.facts.measure",
    f"{PACKAGE}.agents.finite.contrastive_ucb",
    f"{PACKAGE}.agents.finite.contrastive_ulcb",
)
IGNORED = (f"{PACKAGE}.core.runtime",)  # how many threads there are, not what they compute


@cache
def fingerprint(roots: Sequence[str] = ROOTS) -> str:
    """A hash of the roots and of everything in the package that they import."""
    found: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or name in IGNORED:
            continue
        tree = ast.parse(_path(name).read_text(encoding="utf-8"))
        waiting += _imports(tree)
        found[name] = _essence(tree)
    content = "\n".join(f"{name} {found[name]}" for name in sorted(found))
    return hashlib.sha256(content.encode()).hexdigest()


def _path(module: str) -> Path:
    inner = HERE.joinpath(*module.split(".")[1:])
    return inner / "__init__.py" if inner.is_dir() else inner.with_suffix(".py")


def _imports(tree: ast.Module) -> Iterator[str]:
    """The modules of the package that are imported with this one.

    What stands in a function, or for type checkers only, is not.
    """
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith(f"{PACKAGE}."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            assert node.module
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if _path(name).is_file()]
            yield from modules or [node.module]


def _essence(tree: ast.Module) -> str:
    """The program without its docstrings; ast leaves comments and layout out."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
