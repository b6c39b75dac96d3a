"""The algorithms by name. A baseline is Contrastive UCB or ULCB with other settings.

All of them use the same loop and sampler, and so the same number of trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
from contrastive_ucb.core.checks import check_names, hint

C = TypeVar("C", bound=AgentConfig)
Differences = Mapping[str, Mapping[str, Any]]  # of each algorithm from the default configuration

OF_MDPS: Differences = {
    "contrastive-ucb": {},
    "rep-ucb": {"features": "likelihood"},  # maximum likelihood instead of contrast (Rep-UCB)
    "lsvi-ucb": {"features": "true"},  # given the true features; regresses values on them
    "ucbvi": {"features": "table"},  # the empirical kernel and a bonus of 1 / sqrt(visits)
    "no-bonus": {"alpha": 0.0},  # plans greedily in the learned model
    "epsilon-greedy": {"alpha": 0.0, "epsilon": 0.1},  # no bonus; 10 % uniform roll-in actions
    "uniform": {"alpha": 0.0, "epsilon": 1.0},  # no bonus; only uniform roll-in actions
}
OF_GAMES: Differences = {
    "contrastive-ulcb": {},
    "rep-ulcb": OF_MDPS["rep-ucb"],
    "omni-vi": OF_MDPS["lsvi-ucb"],  # as in OMNI-VI
    "midpoint-nash": {"equilibrium": "midpoint"},  # Nash equilibrium of (Q-upper + Q-lower) / 2
    "tight-cce": {"equilibrium": "tight"},  # the CCE with the smallest V-upper - V-lower
    "no-bonus": OF_MDPS["no-bonus"],
    "uniform": OF_MDPS["uniform"],
}
FREE = {"epsilon-greedy": "epsilon"}  # the only difference of a preset that can be changed


def _configured(kind: type[C], presets: Differences, algo: str, /, **changes: Any) -> C:
    """The configuration of an algorithm with changes; None keeps the value of the preset."""
    if algo not in presets:
        known = ", ".join(presets)
        if algo in OF_MDPS:
            raise ValueError(f"{algo} is for MDPs; a game takes {known}")
        if algo in OF_GAMES:
            raise ValueError(f"{algo} is for games; an MDP takes {known}")
        raise ValueError(f"no algorithm is called {algo!r}; {hint(algo, presets)}")
    check_names(changes, (field.name for field in fields(kind)))
    given = {name: value for name, value in changes.items() if value is not None}
    for name, value in {"features": kind.features, **presets[algo]}.items():
        if given.get(name, value) != value and name != FREE.get(algo):
            raise ValueError(f"{algo} is defined by {name} = {value}, got {given[name]!r}")
    return kind(**{**presets[algo], **given})


preset = partial(_configured, AgentConfig, OF_MDPS)
game_preset = partial(_configured, GameConfig, OF_GAMES)
PRESETS = {algo: preset(algo) for algo in OF_MDPS}
"""The algorithms for MDPs by name, each with its `AgentConfig`.

Examples:
    >>> import contrastive_ucb as cu
    >>> list(cu.PRESETS)[:3]
    ['contrastive-ucb', 'rep-ucb', 'lsvi-ucb']
    >>> cu.PRESETS["no-bonus"].alpha
    0.0
"""
GAME_PRESETS = {algo: game_preset(algo) for algo in OF_GAMES}
"""The algorithms for games by name, each with its `GameConfig`.

Examples:
    >>> import contrastive_ucb as cu
    >>> cu.GAME_PRESETS["tight-cce"].equilibrium
    'tight'
"""
