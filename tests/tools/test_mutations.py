"""The list of mutations matches the code."""

from pathlib import Path
from typing import Any

import pytest

from tools.mutations import mutated, mutations

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation["error"])
def test_a_mutation_changes_one_place(mutation: dict[str, Any]) -> None:
    path, wrong = mutated(mutation, ROOT)
    assert wrong != path.read_text(encoding="utf-8")
    assert all((ROOT / tests).exists() for tests in mutation["tests"])
