"""The settings of `cucb train --set` in words: what each takes, is and means."""

from __future__ import annotations

import ast
import re
from functools import reduce
from inspect import getsource
from itertools import pairwise
from textwrap import wrap
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig
from contrastive_ucb.agents.simple.config import FULL, SimpleConfig
from contrastive_ucb.core.checks import kinds_of

WIDTH = 80  # columns of the help
EXAMPLES = {"support": "0,10", "epsilon": "1,0.1", "extra_rounds": "8,12"}


def settings_help() -> str:
    """Every setting of --set with its usual value, what it takes, and what it means."""
    from contrastive_ucb.agents.deep.presets import BONUSES, DEEP_PRESETS  # imports torch
    from contrastive_ucb.experiments.settings import rainbow_kinds

    usual = DEEP_PRESETS["spr-ucb"]
    said = meanings(RainbowConfig)
    said |= {f"bonus.{name}": text for name, text in meanings(BonusConfig).items()}
    whole = "The bonus, and what of the learner goes with it; other settings are changes to it."
    lines = [
        "settings (--set KEY=VALUE ...), their values in spr-ucb on Atari, what they take",
        "and what they are:",
        *_entry("bonus.preset", "paper", f"one of {', '.join(BONUSES)}", whole),
    ]
    for key, kind in rainbow_kinds().items():
        if key != "bonus.preset":
            lines += _entry(key, _value_of(usual, key), takes(key, kind), said[key])
    lines += ["", "settings of simple, which has no bonus, and their values in its size full:"]
    said = meanings(SimpleConfig)
    for key, kind in kinds_of(SimpleConfig).items():
        lines += _entry(key, _value_of(FULL, key), takes(key, kind), said[key])
    return "\n".join(lines)


def takes(key: str, kind: Any) -> str:
    """What values the setting `key` of this type takes, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return f"{takes(key, next(one for one in inner if one is not type(None)))}, or none"
    if origin is tuple:
        number = "whole numbers" if inner[0] is int else "numbers"
        if inner[-1] is Ellipsis:
            return f"{number} such as {EXAMPLES.get(key, '64,64')}"
        return f"{len(inner)} {number} such as {EXAMPLES.get(key, '0.4,1.0')}"
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "a word")


def meanings(settings: type) -> dict[str, str]:
    """The first sentence of the text that stands under each setting of a class."""
    (tree,) = ast.parse(getsource(settings)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for setting, below in pairwise(tree.body):
        match setting, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = re.split(r"(?<=\.)\s", " ".join(text.split()))[0]
    return found


def _entry(key: str, value: str, takes_what: str, means: str) -> list[str]:
    """A setting with its value, and its meaning below, both no wider than the help."""
    head, below = f"  {key:21} {value:10} ", " " * 6
    lines = wrap(
        takes_what,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,  # names have them
    )
    return lines + wrap(means, WIDTH, initial_indent=below, subsequent_indent=below)


def _value_of(config: object, key: str) -> str:
    value = reduce(getattr, key.split("."), config)
    return ",".join(str(one) for one in value) if isinstance(value, tuple) else str(value)
