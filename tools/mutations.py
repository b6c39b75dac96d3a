"""Check that the tests notice errors in the algorithms.

    .venv/bin/python tools/mutations.py [FIRST [LAST]]

`mutations.toml` lists one-line errors: a file, the text to replace, the wrong text, and the tests
that should fail. Each error is made alone in a copy of the repository. The script prints one line
per error, `killed` or `survived`, and exits with status 1 if an error survived. FIRST and LAST
select a range of the list.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = "src/contrastive_ucb"
COPIED = ("src", "tests", "benchmarks", "tools", "results", "pyproject.toml")


def mutations() -> list[dict[str, Any]]:
    """The entries of mutations.toml."""
    listed: list[dict[str, Any]] = tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    )["mutation"]
    return listed


def mutated(mutation: dict[str, Any], root: Path) -> tuple[Path, str]:
    """The file of a mutation and its wrong text; the text to replace must occur once."""
    path = root / PACKAGE / mutation["file"]
    text = path.read_text(encoding="utf-8")
    if (count := text.count(mutation["before"])) != 1:
        raise ValueError(f"{mutation['before']!r} occurs {count} times in {path}; edit the list")
    return path, text.replace(mutation["before"], mutation["after"])


def is_killed(mutation: dict[str, Any], root: Path) -> bool:
    """Whether the tests fail with the mutation; the file is restored afterwards."""
    path, wrong = mutated(mutation, root)
    right = path.read_text(encoding="utf-8")
    path.write_text(wrong, encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-m", "not slow", *mutation["tests"]],
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
            capture_output=True,
            text=True,
        )
    finally:
        path.write_text(right, encoding="utf-8")
    if done.returncode not in (0, 1):  # neither passed nor failed
        raise RuntimeError(f"pytest {' '.join(mutation['tests'])} did not run:\n{done.stdout}")
    return done.returncode == 1


def main(words: list[str]) -> int:
    first = int(words[0]) if words else 1
    last = int(words[1]) if words[1:] else len(mutations())
    n_survived = 0
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, root / name)
        for number, mutation in enumerate(mutations(), 1):
            if first <= number <= last:
                killed = is_killed(mutation, root)
                n_survived += not killed
                state = "killed" if killed else "survived"
                print(f"{number:3} {state:8} {mutation['file']}: {mutation['error']}", flush=True)
    print(f"{n_survived} survived")
    return int(n_survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
