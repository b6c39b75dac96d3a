"""The deep agents as a table of their differences: a row a setting, a column an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS, DEEP_PRESETS, configure
from contrastive_ucb.representation.encoder_shapes import choose_encoder

Settings = dict[str, dict[str, Any]]  # agent: setting: value


def settings_of(shape: tuple[int, ...] = (1, 84, 84), game: str = "") -> Settings:
    """Every setting of every Rainbow agent for frames of this shape, by default Atari's, and for
    this game, the one name of an environment; without agents that such frames are nothing for."""
    names = [one.name for one in fields(RainbowConfig) if one.name != "bonus"]
    found: Settings = {}
    for algo in (name for name in ALGORITHMS if name in DEEP_PRESETS):
        config = configure(algo, {}, shape, game)
        if config.has_curl and len(shape) != 3:  # there is nothing to crop
            continue
        found[algo] = {name: getattr(config, name) for name in names}
        found[algo]["augment"] = config.augment and choose_encoder(shape) == "atari"
        found[algo]["bonus.scale"] = config.bonus.scale
    return found


def differences(settings: Settings) -> Settings:
    """The settings in which not all agents are alike."""
    first = next(iter(settings.values()))
    kept = [name for name in first if len({own[name] for own in settings.values()}) > 1]
    return {algo: {name: own[name] for name in kept} for algo, own in settings.items()}


def rows(settings: Settings) -> list[list[str]]:
    """The header with the agents, then a row a setting."""
    names = list(next(iter(settings.values())))
    body = [[name, *(shown(own[name]) for own in settings.values())] for name in names]
    return [["setting", *settings], *body]


def text_table(cells: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """Columns side by side; with `numbers` all but the first are to the right."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    to_right = [numbers and column > 0 for column in range(len(widths))]
    lines = []
    for row in cells:
        padded = zip(row, widths, to_right, strict=True)
        lines.append("  ".join(x.rjust(n) if right else x.ljust(n) for x, n, right in padded))
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(cells: Sequence[Sequence[str]]) -> str:
    header, *body = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join([header, "|---" * len(cells[0]) + "|", *body])


def shown(value: Any) -> str:
    """A value as a table has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(shown(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
