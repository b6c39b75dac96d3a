"""Generated parts of the reference pages: command line, settings and agents, from the code.

A page contains `<!-- generated: NAME -->`; `part(NAME)` is the Markdown that replaces it.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import textwrap
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from contrastive_ucb.agents.deep.config import BonusConfig, ExplorerConfig, RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig, NeuralConfig
from contrastive_ucb.agents.ppo.config import PREFIX, PPOConfig
from contrastive_ucb.agents.simple.config import SIZES, SimpleConfig
from contrastive_ucb.bonus import BONUS_NAMES
from contrastive_ucb.bonus.config import COMMON, IntrinsicConfig, bonus_settings
from contrastive_ucb.cli import COMMANDS, main
from contrastive_ucb.cli.solve import ENVIRONMENTS
from contrastive_ucb.report.agent_table import differing_settings, rows
from contrastive_ucb.report.tables import NOTHING, table, to_markdown
from contrastive_ucb.runs.problem import DEFAULTS

SOURCES = Path(__file__).with_name("settings.toml")  # what the paper uses, and why we differ
SHAPES = {  # of one observation
    "Atari": (1, 84, 84),
    "MinAtar": (4, 10, 10),
    "Vectors (here of length 100)": (100,),
}
HELP_COLUMNS = 88


def part(name: str) -> str:
    """The generated Markdown of this name."""
    if name not in PARTS:
        raise ValueError(f"no generated part is called {name!r}; there are {', '.join(PARTS)}")
    return PARTS[name]()


# --- Command line -----------------------------------------------------------------------------


def command_line() -> str:
    """The help of every command, and the environments of `cucb solve` with their options."""
    sections = [f"## cucb\n\n{_fenced(help_of())}"]
    for command in COMMANDS:
        sections.append(f"## cucb {command}\n\n{_fenced(help_of(command))}")
        if command == "solve":
            sections.append(environment_options())
        if command == "verify":
            sections.append(f"### cucb verify locks\n\n{_fenced(help_of('verify', 'locks'))}")
    return "\n\n".join(sections)


@cache
def help_of(*words: str) -> str:
    """What `cucb WORDS --help` prints."""
    printed = io.StringIO()
    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(HELP_COLUMNS)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width
    if code:
        raise RuntimeError(f"cucb {' '.join(words)} --help failed: {printed.getvalue()}")
    return printed.getvalue().rstrip()


def environment_options() -> str:
    """The options of each environment of `cucb solve`; the agent's are on another page."""
    sections = ["### Environments of cucb solve"]
    for name, (about, options) in ENVIRONMENTS.items():
        lines = [
            [f"`--{key.replace('_', '-')}`", _value(DEFAULTS[name][key]), text]
            for key, text in options.items()
        ]
        listed = _table(["option", "default", "meaning"], lines)
        sections.append(f"**`{name}`**: {about}\n\n{listed}")
    sections.append("### Options of cucb solve")
    return "\n\n".join([*sections, _fenced(help_of("solve", "file"))])


# --- Settings ---------------------------------------------------------------------------------


def settings_table(kind: type, prefix: str = "") -> str:
    """One row per field of a configuration: default, choices and description."""
    about, hints = descriptions(kind), get_type_hints(kind)
    lines = []
    for field in fields(kind):
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        if is_dataclass(default):
            continue
        text = about[field.name]
        if choices := [one for one in get_args(hints[field.name]) if isinstance(one, str)]:
            shown = [one for one in choices if one != "learnt"]  # an old spelling
            if not all(one in text for one in shown):
                text = f"{text} One of {', '.join(f'`{one}`' for one in shown)}."
        lines.append([f"`{prefix}{field.name}`", _value(default), text])
    return _table(["setting", "default", "meaning"], lines)


def paper_table(kind: type, names: Iterable[str]) -> str:
    """The same with what the paper uses, and the source of each default."""
    about, defaults = descriptions(kind), {field.name: field.default for field in fields(kind)}
    sources = tomllib.loads(SOURCES.read_text(encoding="utf-8"))
    lines = []
    for name in names:
        entry = sources[name]
        default = entry.get("default", _value(defaults[name]))
        lines.append([f"`{name}`", default, entry["paper"], about[name], entry["source"]])
    header = ["setting", "default", "in the paper", "meaning", "source of the default"]
    return _table(header, lines)


@cache
def descriptions(kind: type) -> dict[str, str]:
    """The string below each field of a dataclass, on one line, including inherited fields."""
    found: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if not is_dataclass(parent):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(parent))).body
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[field.target.id] = " ".join(str(after.value.value).split())  # type: ignore[union-attr]
    return found


def simple_sizes() -> str:
    """Defaults of SimPLe in its two sizes."""
    full, small = (SIZES[name] for name in ("full", "small"))
    about = descriptions(SimpleConfig)
    lines = [
        [f"`{field.name}`", _value(getattr(full, field.name)), _value(getattr(small, field.name)),
         about[field.name]]
        for field in fields(SimpleConfig)
        if field.name != "size"
    ]  # fmt: skip
    return _table(["setting", "full", "small", "meaning"], lines)


def intrinsic_table() -> str:
    """The weight of the intrinsic reward, and the settings of each bonus with their defaults."""
    about = descriptions(IntrinsicConfig)
    common = [
        [f"`{PREFIX}{name}`", _value(getattr(IntrinsicConfig(), name)), about[name]]
        for name in COMMON
    ]
    settings = {name: bonus_settings(name) for name in BONUS_NAMES}
    names = dict.fromkeys(name for one in settings.values() for name in one)
    lines = [
        [f"`{PREFIX}{name}`"]
        + [_value(one[name][1]) if name in one else "" for one in settings.values()]
        for name in names
    ]
    first = _table(["setting", "default", "meaning"], common)
    return f"{first}\n\n{_table(['setting', *(f'`{name}`' for name in settings)], lines)}"


def agents_table() -> str:
    """The deep agents with their sources."""
    lines = [[f"`{name}`", one.what, one.source] for name, one in ALGORITHMS.items()]
    return _table(["agent", "description", "source"], lines)


def agent_settings() -> str:
    """The settings in which the deep agents differ, for each kind of observation."""
    parts = []
    for name, shape in SHAPES.items():
        (corner, *agents), *body = rows(differing_settings(shape))
        lines = [[f"`{setting}`", *values] for setting, *values in body]
        header = [corner, *(f"`{agent}`" for agent in agents)]
        parts.append(f"### {name}\n\n{_table(header, lines)}")
    return "\n\n".join(parts)


def _own(kind: type, parent: type) -> list[str]:
    inherited = {field.name for field in fields(parent)}
    return [field.name for field in fields(kind) if field.name not in inherited]


def _value(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "`" + ",".join(str(one) for one in value) + "`" if value else "none"
    return f"`{value}`"


def _table(header: list[str], lines: list[list[str]]) -> str:
    return to_markdown(table(header, lines)).rstrip()


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"


PARTS: dict[str, Callable[[], str]] = {
    "command-line": command_line,
    "finite-settings": lambda: paper_table(AgentConfig, _own(AgentConfig, NeuralConfig)),
    "game-settings": lambda: paper_table(GameConfig, _own(GameConfig, AgentConfig)),
    "neural-settings": lambda: paper_table(
        NeuralConfig, [field.name for field in fields(NeuralConfig)]
    ),
    "deep-settings": lambda: settings_table(RainbowConfig),
    "bonus-settings": lambda: settings_table(BonusConfig, prefix="bonus."),
    "explorer-settings": lambda: settings_table(ExplorerConfig, prefix="explorer."),
    "simple-settings": simple_sizes,
    "ppo-settings": lambda: settings_table(PPOConfig),
    "intrinsic-settings": intrinsic_table,
    "agents": agents_table,
    "agent-settings": agent_settings,
}
