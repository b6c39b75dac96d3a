"""The settings in which the deep agents differ: one row per setting, one column per agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS, DEEP_PRESETS, configure
from contrastive_ucb.envs.frames import choose_encoder

Settings = dict[str, dict[str, Any]]  # agent: setting: value


def differing_settings(shape: tuple[int, ...] = (1, 84, 84), game: str = "") -> Settings:
    """The settings in which the Rainbow agents that support observations of this shape differ.

    shape  of one frame, by default Atari's
    game   name of the environment, which may have settings of its own
    """
    names = [field.name for field in fields(RainbowConfig) if field.name != "bonus"]
    settings: Settings = {}
    for algo in (name for name in ALGORITHMS if name in DEEP_PRESETS):
        config = configure(algo, {}, shape, game)
        if config.curl_weight > 0 and len(shape) != 3:  # nothing to crop
            continue
        settings[algo] = {name: getattr(config, name) for name in names}
        settings[algo]["augment"] = config.augment and choose_encoder(shape) == "atari"
        settings[algo]["bonus.scale"] = config.bonus.scale
    names.append("bonus.scale")
    differing = [name for name in names if len({own[name] for own in settings.values()}) > 1]
    return {algo: {name: own[name] for name in differing} for algo, own in settings.items()}


def rows(settings: Settings) -> list[list[str]]:
    """The header with the agents, and one row per setting."""
    names = list(next(iter(settings.values())))
    body = [[name, *(shown(own[name]) for own in settings.values())] for name in names]
    return [["setting", *settings], *body]


def text_table(cells: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """Aligned columns; with `numbers` all but the first are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = ["<" if column == 0 or not numbers else ">" for column in range(len(widths))]
    form = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return "\n".join(form.format(*row).rstrip() for row in cells)


def shown(value: Any) -> str:
    """A value in a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
