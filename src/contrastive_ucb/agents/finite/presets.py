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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
from contrastive_ucb.core.checks import check_names, hint

C = TypeVar("C", bound=AgentConfig)


@dataclass(frozen=True)
class Presets(Mapping[str, C], Generic[C]):
    """Configurations by name: their differences from the defaults, built when asked for."""

    kind: type[C]
    differences: Mapping[str, Mapping[str, Any]]

    def configure(self, name: str, **changes: Any) -> C:
        """The configuration `name` with changes; None keeps the value of the preset."""
        if name not in self.differences:
            raise ValueError(_unknown(name, self))
        check_names(changes, (field.name for field in fields(self.kind)))
        given = {key: value for key, value in changes.items() if value is not None}
        differences = self.differences[name]
        for key, value in {"features": AgentConfig.features, **differences}.items():
            if given.get(key, value) != value and key != FREE.get(name):
                raise ValueError(f"{name} is defined by {key} = {value}, got {given[key]!r}")
        return self.kind(**{**differences, **given})

    def __getitem__(self, name: str) -> C:
        return self.kind(**self.differences[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)


FREE = {"epsilon-greedy": "epsilon"}  # the only difference of a preset that can be changed
PRESETS = Presets(
    AgentConfig,
    {
        "contrastive-ucb": {},
        "rep-ucb": {"features": "likelihood"},
        "lsvi-ucb": {"features": "true"},
        "ucbvi": {"features": "table"},
        "no-bonus": {"alpha": 0.0},
        "epsilon-greedy": {"alpha": 0.0, "epsilon": 0.1},
        "uniform": {"alpha": 0.0, "epsilon": 1.0},
    },
)
GAME_PRESETS = Presets(
    GameConfig,
    {
        "contrastive-ulcb": {},
        "rep-ulcb": {"features": "likelihood"},
        "omni-vi": {"features": "true"},
        "midpoint-nash": {"equilibrium": "midpoint"},
        "tight-cce": {"equilibrium": "tight"},
        "no-bonus": {"alpha": 0.0},
        "uniform": {"alpha": 0.0, "epsilon": 1.0},
    },
)
preset, game_preset = PRESETS.configure, GAME_PRESETS.configure


def _unknown(name: str, presets: Mapping[str, AgentConfig]) -> str:
    """An error message with a suggestion for a misspelled or misplaced algorithm."""
    if name in PRESETS:
        return f"{name} is for MDPs; a game takes {', '.join(presets)}"
    if name in GAME_PRESETS:
        return f"{name} is for games; an MDP takes {', '.join(presets)}"
    return f"no algorithm is called {name!r}; {hint(name, presets)}"
