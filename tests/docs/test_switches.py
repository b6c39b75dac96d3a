"""The tables of switches have every setting of the agents, with the default that it really has."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from contrastive_ucb.agents.finite.config import GameConfig
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS

PAGE = (Path(__file__).parents[2] / "docs" / "switches.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", PAGE, flags=re.MULTILINE))


@pytest.mark.parametrize("field", fields(GameConfig), ids=lambda field: field.name)
def test_default_is_the_one_in_the_table(field: object) -> None:
    name, default = field.name, field.default  # type: ignore[attr-defined]
    shown = ROWS[name]
    if default is None:
        assert shown.startswith("none")
    else:
        assert ast.literal_eval(shown.strip("`")) == default


def test_every_algorithm_is_named() -> None:
    pages = (Path(__file__).parents[2] / "docs").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert all(f"`{algo}`" in text for algo in (*PRESETS, *GAME_PRESETS))
    assert all(f"\n- {algo}:" in PAGE for algo in GAME_PRESETS if algo != "contrastive-ulcb")


def test_the_table_has_no_setting_that_does_not_exist() -> None:
    assert ROWS.keys() - {field.name for field in fields(GameConfig)} == {"negative_distribution"}
