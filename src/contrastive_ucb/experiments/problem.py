"""Problem: what `cucb solve` solves and how, as data; torch is imported when an agent is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from contrastive_ucb.agents.finite.config import AgentConfig, NeuralConfig, check_tabular
from contrastive_ucb.agents.finite.presets import game_preset, preset
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.environments import (
    OBSERVED,
    family_of,
    identity_of,
    make_env,
    make_observed,
)
from contrastive_ucb.experiments.spec import RunSpec

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.learner import Learner


@dataclass(frozen=True)
class Problem:
    """What is solved and how; everything but the seed that determines the result."""

    env: str
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    algo: str = "contrastive-ucb"
    agent_settings: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1000
    env_seed: int | None = None  # None: each seed has an environment of its own
    suite: str = "solve"

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if not self.is_observed:
            check_tabular(self.agent_settings)

    @classmethod
    def of_spec(cls, spec: RunSpec) -> Problem:
        """The problem that has this specification."""
        config = spec.config
        env = {name: value for name, value in config["env"].items() if name != "name"}
        if "sha256" in env:
            raise UserError(
                "a run of 'cucb solve file' does not keep where its file lies; learn on "
                "cu.TabularMDP.load(path) or cu.TabularGame.load(path), and save that agent"
            )
        length, own = config["rounds"], config["env_seed"]
        return cls(spec.task, env, spec.agent, config["agent"], length, own, spec.suite)

    def spec(self, seed: int) -> RunSpec:
        config = {
            "env": identity_of(self.env, self.env_settings),
            "env_seed": self.env_seed,
            "agent": self._agent_config(),
            "rounds": self.rounds,
        }
        return RunSpec(self.suite, self.algo, self.env, seed, config)

    def agent(self, seeds: Sequence[int]) -> Learner[Any]:
        from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
        from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB

        own = [seed if self.env_seed is None else self.env_seed for seed in seeds]
        make = make_observed if self.env in OBSERVED else make_env
        envs: list[Any] = [make(self.env, self.env_settings, seed) for seed in own]
        kind = ContrastiveULCB if self._is_game else ContrastiveUCB
        return kind(envs, seed=list(seeds), algo=self.algo, **self.agent_settings)

    @property
    def is_observed(self) -> bool:
        """Whether it is seen through observations, so that networks learn it, a seed at a time."""
        neural = self.agent_settings.get("representation") == "neural"
        return neural or self.env in OBSERVED

    def _agent_config(self) -> dict[str, Any]:
        """The agent's settings; those of networks are no part of what a run with tables is."""
        config = asdict(self._preset(self.algo, **self.agent_settings))
        if self.is_observed:
            return config
        own = {setting.name for setting in fields(NeuralConfig)}
        return {name: value for name, value in config.items() if name not in own}

    @property
    def _is_game(self) -> bool:
        return family_of(self.env, self.env_settings) == "game"

    @property
    def _preset(self) -> Callable[..., AgentConfig]:
        return game_preset if self._is_game else preset
