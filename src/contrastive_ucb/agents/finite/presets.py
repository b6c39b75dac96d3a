"""The algorithms by name: a peer is Contrastive UCB with a difference, not a copy.

All of them run the same loop on the same sampler, so they spend the same budget:
- rep-ucb         features by maximum likelihood instead of the contrastive loss (Rep-UCB's idea)
- lsvi-ucb        is given the true features and regresses values on them
- ucbvi           no features: the empirical kernel and a bonus of one over the root of the visits
- no-bonus        plans greedily in the learnt model
- epsilon-greedy  the same, with one roll-in action in ten uniform
- uniform         rolls in uniformly and plans greedily in what it has seen

and for games, with Contrastive ULCB as the loop:
- rep-ulcb        features by maximum likelihood
- omni-vi         is given the true features and regresses values on them (OMNI-VI's idea)
- midpoint-nash   the Nash equilibrium of (Q-upper + Q-lower) / 2 instead of a CCE
- tight-cce       among all CCEs the one with the smallest V-upper - V-lower
- no-bonus, uniform  as above
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig

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

# What makes a peer what it is, besides its features: with it changed, the name would be a lie.
DEFINING = {
    "no-bonus": ("alpha",),
    "epsilon-greedy": ("alpha",),
    "uniform": ("alpha", "epsilon"),
    "midpoint-nash": ("equilibrium",),
    "tight-cce": ("equilibrium",),
}

C = TypeVar("C", bound=AgentConfig)


def preset(name: str, **changes: Any) -> AgentConfig:
    """The configuration called `name`, with changes; a change of None keeps the preset's value."""
    return _changed(name, PRESETS, changes)


def game_preset(name: str, **changes: Any) -> GameConfig:
    """The same for the algorithms that play games."""
    return _changed(name, GAME_PRESETS, changes)


def _changed(name: str, family: Mapping[str, C], changes: Mapping[str, Any]) -> C:
    if name not in family:
        raise ValueError(_unknown(name, family))
    known = {field.name for field in fields(family[name])}
    if unknown := changes.keys() - known:
        close = get_close_matches(min(unknown), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
        raise ValueError(f"no setting is called {min(unknown)!r}; {hint}")
    given = {key: value for key, value in changes.items() if value is not None}
    for key in ("features", *DEFINING.get(name, ())):
        if (own := getattr(family[name], key)) != given.get(key, own):
            raise ValueError(f"{name} is defined by {key} = {own}, so it cannot be {given[key]}")
    return replace(family[name], **given)


def _unknown(name: str, family: Mapping[str, AgentConfig]) -> str:
    """What a person may have meant: an algorithm of the other family, or a slip of the keys."""
    if name in PRESETS:
        return f"{name} is for MDPs; a game takes {', '.join(family)}"
    if name in GAME_PRESETS:
        return f"{name} is for games; an MDP takes {', '.join(family)}"
    close = get_close_matches(name, family, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(family)}"
    return f"no algorithm is called {name!r}; {hint}"
