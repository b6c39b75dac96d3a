"""The algorithms by name: a peer is Contrastive UCB with a difference, not a copy.

All of them run the same loop on the same sampler, so they spend the same budget:
- rep-ucb         features by maximum likelihood instead of the contrastive loss (Rep-UCB's idea)
- lsvi-ucb        is given the true features and regresses values on them
- ucbvi           no features: the empirical kernel and a bonus of one over the root of the visits
- no-bonus        plans greedily in the learnt model
- epsilon-greedy  the same, with one roll-in action in ten uniform
- uniform         rolls in uniformly and plans greedily in what it has seen
"""

from __future__ import annotations

from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from contrastive_ucb.agents.config import AgentConfig

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

# What makes a peer what it is, besides its features: with it changed, the name would be a lie.
DEFINING = {"no-bonus": ("alpha",), "epsilon-greedy": ("alpha",), "uniform": ("alpha", "epsilon")}


def preset(name: str, **changes: Any) -> AgentConfig:
    """The configuration called `name`, with changes; a change of None keeps the preset's value."""
    if name not in PRESETS:
        close = get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(PRESETS)}"
        raise ValueError(f"no algorithm is called {name!r}; {hint}")
    known = {field.name for field in fields(AgentConfig)}
    if unknown := changes.keys() - known:
        close = get_close_matches(min(unknown), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
        raise ValueError(f"no setting is called {min(unknown)!r}; {hint}")
    given = {key: value for key, value in changes.items() if value is not None}
    for key in ("features", *DEFINING.get(name, ())):
        if (own := getattr(PRESETS[name], key)) != given.get(key, own):
            raise ValueError(f"{name} is defined by {key} = {own}, so it cannot be {given[key]}")
    return replace(PRESETS[name], **given)
