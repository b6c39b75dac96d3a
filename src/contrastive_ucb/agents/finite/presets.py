"""The algorithms by name. A baseline is Contrastive UCB or ULCB with other settings.

All of them use the same loop and sampler, and so the same number of trajectories:
- rep-ucb         features by maximum likelihood instead of the contrastive loss (as in Rep-UCB)
- lsvi-ucb        given the true features; regresses values on them
- ucbvi           no features: the empirical kernel and a bonus of 1 / sqrt(visits)
- no-bonus        plans greedily in the learned model
- epsilon-greedy  no bonus, and 10 % uniform roll-in actions
- uniform         no bonus, and only uniform roll-in actions

For games, with Contrastive ULCB as the loop:
- rep-ulcb        features by maximum likelihood
- omni-vi         given the true features; regresses values on them (as in OMNI-VI)
- midpoint-nash   the Nash equilibrium of (Q-upper + Q-lower) / 2 instead of a CCE
- tight-cce       the CCE with the smallest V-upper - V-lower
- no-bonus, uniform  as above
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
from contrastive_ucb.core.checks import check_names, hint

CONTRASTIVE_UCB = AgentConfig()
NO_BONUS = replace(CONTRASTIVE_UCB, alpha=0.0)
PRESETS: dict[str, AgentConfig] = {
    "contrastive-ucb": CONTRASTIVE_UCB,
    "rep-ucb": replace(CONTRASTIVE_UCB, features="likelihood"),
    "lsvi-ucb": replace(CONTRASTIVE_UCB, features="true"),
    "ucbvi": replace(CONTRASTIVE_UCB, features="table"),
    "no-bonus": NO_BONUS,
    "epsilon-greedy": replace(NO_BONUS, epsilon=0.1),
    "uniform": replace(NO_BONUS, epsilon=1.0),
}

CONTRASTIVE_ULCB = GameConfig()
GAME_NO_BONUS = replace(CONTRASTIVE_ULCB, alpha=0.0)
GAME_PRESETS: dict[str, GameConfig] = {
    "contrastive-ulcb": CONTRASTIVE_ULCB,
    "rep-ulcb": replace(CONTRASTIVE_ULCB, features="likelihood"),
    "omni-vi": replace(CONTRASTIVE_ULCB, features="true"),
    "midpoint-nash": replace(CONTRASTIVE_ULCB, equilibrium="midpoint"),
    "tight-cce": replace(CONTRASTIVE_ULCB, equilibrium="tight"),
    "no-bonus": GAME_NO_BONUS,
    "uniform": replace(GAME_NO_BONUS, epsilon=1.0),
}

# Settings, besides `features`, that define a baseline and cannot be changed.
DEFINING = {
    "no-bonus": ("alpha",),
    "epsilon-greedy": ("alpha",),
    "uniform": ("alpha", "epsilon"),
    "midpoint-nash": ("equilibrium",),
    "tight-cce": ("equilibrium",),
}

C = TypeVar("C", bound=AgentConfig)


def preset(name: str, **changes: Any) -> AgentConfig:
    """The configuration `name` with changes; a change of None keeps the value of the preset."""
    return _changed(name, PRESETS, changes)


def game_preset(name: str, **changes: Any) -> GameConfig:
    """The same for games."""
    return _changed(name, GAME_PRESETS, changes)


def _changed(name: str, presets: Mapping[str, C], changes: Mapping[str, Any]) -> C:
    if name not in presets:
        raise ValueError(_unknown(name, presets))
    base = presets[name]
    check_names(changes, (field.name for field in fields(base)))
    given = {key: value for key, value in changes.items() if value is not None}
    for key in ("features", *DEFINING.get(name, ())):
        value = getattr(base, key)
        if given.get(key, value) != value:
            raise ValueError(f"{name} is defined by {key} = {value}, got {given[key]!r}")
    return replace(base, **given)


def _unknown(name: str, presets: Mapping[str, AgentConfig]) -> str:
    """An error message with a suggestion for a misspelled or misplaced algorithm."""
    if name in PRESETS:
        return f"{name} is for MDPs; a game takes {', '.join(presets)}"
    if name in GAME_PRESETS:
        return f"{name} is for games; an MDP takes {', '.join(presets)}"
    return f"no algorithm is called {name!r}; {hint(name, presets)}"
