"""The page that maps the paper to the code points at names that exist, and leaves no file out."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "paper-map.md").read_text(encoding="utf-8")
REFERENCES = sorted(set(re.findall(r"(src/[\w/]+\.py)::([\w.]+)", PAGE)))
MATHEMATICS = ("envs", "data", "representation", "bonus", "planning", "agents", "evaluation")


def names_in(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """Functions, classes, methods and constants, methods as Class.method."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.add(prefix + node.name)
        elif isinstance(node, ast.ClassDef):
            found.add(prefix + node.name)
            found |= names_in(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign):
            found |= {prefix + target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(prefix + node.target.id)
    return found


def test_the_page_has_references() -> None:
    assert len(REFERENCES) > 40


@pytest.mark.parametrize(("path", "name"), REFERENCES)
def test_reference_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in names_in(tree.body)


@pytest.mark.parametrize("package", MATHEMATICS)
def test_every_file_with_mathematics_is_mentioned(package: str) -> None:
    files = (ROOT / "src" / "contrastive_ucb" / package).glob("*.py")
    names = {path.relative_to(ROOT).as_posix() for path in files if path.name != "__init__.py"}
    assert names <= {path for path, _ in REFERENCES}


@pytest.mark.parametrize(("algorithm", "n_lines"), [(1, 15), (2, 18), (3, 22), (4, 22)])
def test_every_line_of_an_algorithm_is_there(algorithm: int, n_lines: int) -> None:
    section = PAGE.split(f"## Algorithm {algorithm},")[1].split("\n## ")[0]
    covered: list[int] = []
    for row in section.splitlines():
        for part in row.split("|")[1].split(",") if row.startswith("| ") else []:
            ends = [int(number) for number in re.findall(r"\d+", part)]
            covered += range(ends[0], ends[-1] + 1) if ends else []
    assert covered == list(range(1, n_lines + 1))
