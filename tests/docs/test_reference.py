"""The reference pages: every public name, setting, algorithm and command, from the code."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

import contrastive_ucb
from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.agents.finite.config import GameConfig
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.cli import COMMANDS
from tools import reference

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"


def test_every_public_name_is_in_the_api_reference_once() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (PAGES / "api").glob("*.md"))
    documented = re.findall(r"^::: contrastive_ucb\.(\w+)$", text, flags=re.MULTILINE)
    assert sorted(documented) == sorted(contrastive_ucb.__all__)


def test_every_generated_part_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    shown = re.findall(r"^<!-- generated: ([\w-]+) -->$", text, flags=re.MULTILINE)
    assert sorted(shown) == sorted(reference.PARTS)
    with pytest.raises(ValueError, match="nothing"):
        reference.part("nothing")


def test_every_setting_has_its_default_and_its_meaning() -> None:
    parts = {
        "finite-settings game-settings neural-settings": (GameConfig, ""),
        "deep-settings": (RainbowConfig, ""),
        "bonus-settings": (BonusConfig, "bonus."),
        "simple-settings": (SimpleConfig, ""),
    }
    for names, (kind, prefix) in parts.items():
        text = "\n".join(reference.part(name) for name in names.split())
        rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", text, flags=re.MULTILINE)
        expected = {f"{prefix}{field.name}" for field in fields(kind)} - {"bonus", "size"}
        assert {name for name, _ in rows} == expected
        assert all(cell.strip() for _, row in rows for cell in re.split(r"(?<!\\)\|", row))
    assert "| `ridge` | `1.0` |" in reference.part("finite-settings")
    assert "| `bonus.pairs` | `sampled` |" in reference.part("bonus-settings")


def test_sources_name_settings_that_exist() -> None:
    sources = tomllib.loads((ROOT / "tools" / "settings.toml").read_text(encoding="utf-8"))
    assert sources.keys() == {field.name for field in fields(GameConfig)}
    assert all(entry.keys() <= {"default", "paper", "source"} for entry in sources.values())


def test_every_algorithm_is_listed() -> None:
    page = (PAGES / "algorithms.md").read_text(encoding="utf-8") + reference.part("agents")
    assert all(f"`{algo}`" in page for algo in (*PRESETS, *GAME_PRESETS, *ALGORITHMS))


def test_every_command_has_its_help() -> None:
    text = reference.part("command-line")
    headings = re.findall(r"^## cucb (\w+)$", text, flags=re.MULTILINE)
    assert headings == list(COMMANDS)
    assert all(f"usage: cucb {command}" in text for command in COMMANDS)
    assert "\x1b" not in text
