"""Problem: a run of `cucb solve` as data. Environments and settings are given by name.

The names of settings are those of the options of `cucb solve` (n_states, true_rank, negatives, ...)
and the defaults are the same, so a grid, a Python call and a command describe the same run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_ucb.agents.finite.config import (
    AgentConfig,
    GameConfig,
    NeuralConfig,
    check_tabular,
)
from contrastive_ucb.agents.finite.presets import game_preset, preset
from contrastive_ucb.core.checks import check_size, hint, kinds_of, typed
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs import DeepSea, Lock, LockGame, LowRankGame, LowRankMDP, RiverSwim
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.tabular import kind_of, load_env
from contrastive_ucb.runs.spec import RunSpec

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.learner import Learner

ENVS: dict[str, type] = {
    "lowrank": LowRankMDP,
    "lock": Lock,
    "deepsea": DeepSea,
    "lowrank-game": LowRankGame,
    "lock-game": LockGame,
    "riverswim": RiverSwim,
    "continuous": ContinuousMDP,
    "rich-lock": RichLock,
    "rich-lock-game": RichLockGame,
    "gym": GymObserved,
}
SAME = ("riverswim", "gym")  # the same environment for every seed
GAMES = ("lowrank-game", "lock-game", "rich-lock-game")
# Arguments of environments by option; the agent has its own rank and reward.
ARGUMENTS = {"true_rank": "rank", "reward_kind": "reward", "id": "env_id"}
NAMES = {argument: option for option, argument in ARGUMENTS.items()}
# Settings without a default, and their types. A run that does not use them has the same identity as
# before they were added.
ADDED: dict[str, Any] = {"solved_return": float | None, "env_kwargs": dict | None}
DEFAULTS: dict[str, dict[str, Any]] = {  # environment: option: default; None: see `env_settings`
    env: {
        **{
            NAMES.get(name, name): None if name == "rank" else argument.default
            for name, argument in signature(make).parameters.items()
            if name not in ("seed", "render_mode")
        },
        **({"n_column_actions": None} if env in GAMES else {}),
    }
    for env, make in ENVS.items()
} | {"file": {"path": ""}}


@dataclass(frozen=True)
class Problem:
    """What to solve and how: everything except the seed that determines the result.

    settings  of the environment and of the agent; stored are those that differ from the defaults
    env_seed  of the environment; None: the seed of the run
    probes    additional measurements, such as "package.module:Class" (see `Session`)
    stops     end the run when the environment is solved
    """

    env: str
    algo: str = "contrastive-ucb"
    settings: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1000
    env_seed: int | None = None
    suite: str = "solve"
    probes: tuple[str, ...] = ()
    stops: bool = False

    def __post_init__(self) -> None:
        check_size("rounds", self.rounds)
        if self.env_seed is not None:
            check_size("env_seed", self.env_seed, least=0)
        if self.env == "file" and not typed("path", self.settings.get("path", ""), str):
            raise UserError("env 'file' needs a file; set path (--path) to an .npz file")
        if self.env not in DEFAULTS:
            raise UserError(f"no environment is called {self.env!r}; {hint(self.env, DEFAULTS)}")
        if self.env == "gym" and self.env_seed is not None:
            raise UserError(
                f"env_seed = {self.env_seed} has no effect on gym, because the seed of the run"
                " seeds every episode; leave it out, or pass an argument of the environment in"
                " env_kwargs"
            )
        agent = kinds_of(GameConfig if self.is_game else AgentConfig)
        defaults = DEFAULTS[self.env] | asdict((game_preset if self.is_game else preset)(self.algo))
        given = _nested(self.settings)
        for key in given:
            if key not in defaults:
                hinted = hint(key, sorted(defaults))
                raise UserError(f"no setting of {self.env} is called {key!r}; {hinted}")
        settings = {}
        for key, default in defaults.items():
            value = given.get(key)
            if value is not None and key in agent:
                value = typed(key, value, agent[key])
            elif value is not None:
                kind = int if default is None else type(default)
                value = typed(key, value, ADDED.get(key, kind))
                if isinstance(value, int):
                    check_size(key, value)
            if key == "id":  # stored in any case, for the names of folders
                settings[key] = default if value is None else value
            elif value not in (None, default):
                settings[key] = value
        object.__setattr__(self, "settings", settings)
        if not self.is_observed:
            check_tabular(self.agent_settings)

    @cached_property
    def is_game(self) -> bool:
        """Whether it is a game, which decides on the algorithms."""
        if self.env == "file":
            return kind_of(self.settings["path"]) == "game"
        return self.env in GAMES

    @cached_property
    def is_observed(self) -> bool:
        """Whether networks learn it, which train one seed at a time."""
        neural = self.agent_settings.get("representation") == "neural"
        return neural or issubclass(ENVS.get(self.env, object), ObservedEnv)

    @cached_property
    def agent_settings(self) -> dict[str, Any]:
        """The changes to the preset."""
        env = DEFAULTS[self.env]
        return {key: value for key, value in self.settings.items() if key not in env}

    @cached_property
    def env_settings(self) -> dict[str, Any]:
        """The arguments of the environment."""
        defaults, rank = DEFAULTS[self.env], self.agent_settings.get("rank")
        arguments = {
            ARGUMENTS.get(key, key): self.settings.get(key, default)
            for key, default in defaults.items()
            if key in self.settings or key not in ADDED
        }
        if self.env == "file":
            arguments["rank"] = rank
        elif "true_rank" in defaults and "true_rank" not in self.settings:
            arguments["rank"] = rank or signature(ENVS[self.env]).parameters["rank"].default
        if self.is_game and self.env != "file":
            rows, columns = arguments["n_actions"], arguments.pop("n_column_actions")
            arguments["n_actions"] = [rows, columns or rows]
        return arguments

    @classmethod
    def of_spec(cls, spec: RunSpec) -> Problem:
        """The problem of a run; an error if the same inputs now describe another run."""
        inputs, config = dict(spec.inputs or {}), spec.config
        problem = cls(
            inputs["env"],
            inputs["algo"],
            inputs["settings"],
            inputs["length"],
            config["env_seed"],
            spec.suite,
            tuple(config.get("probes", ())),
            config.get("stops", False),
        )
        if problem.spec(spec.seed) != spec:
            what = problem.settings.get("path", f"the preset {problem.algo}")
            raise UserError(f"{what} has changed since the run; restore it to load the run")
        return problem

    def spec(self, seed: int) -> RunSpec:
        env = {"name": self.env, **self.env_settings}
        if self.env == "file":  # identified by its content
            path = Path(env.pop("path"))
            env["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        agent = asdict((game_preset if self.is_game else preset)(self.algo, **self.agent_settings))
        if not self.is_observed:  # settings of networks do not belong to a run with tables
            neural = kinds_of(NeuralConfig)
            agent = {name: value for name, value in agent.items() if name not in neural}
        config = {
            "env": env,
            "env_seed": self.env_seed,
            "agent": agent,
            "rounds": self.rounds,
            **({"probes": self.probes} if self.probes else {}),
            **({"stops": True} if self.stops else {}),
        }
        inputs: dict[str, Any] = {"algo": self.algo, "env": self.env}
        inputs |= {"settings": dict(self.settings), "length": self.rounds}
        if self.env == "file":
            inputs["settings"]["path"] = str(Path(self.settings["path"]).absolute())
        if self.env_seed is not None:
            inputs["env_seed"] = self.env_seed
        return RunSpec(self.suite, self.algo, self.env, seed, config, inputs)

    def environment(self, seed: int) -> Any:
        """The environment of a run with this seed: an MDP, a game, or an `ObservedEnv`."""
        if self.env == "file":
            return load_env(**self.env_settings)
        seed = seed if self.env_seed is None else self.env_seed
        return ENVS[self.env](**self.env_settings, **({} if self.env in SAME else {"seed": seed}))

    def agent(self, seeds: Sequence[int]) -> Learner[Any]:
        """The agent for these seeds; imports the algorithms."""
        kind: Any
        if self.is_game:
            from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB as kind
        else:
            from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB as kind
        envs = [self.environment(seed) for seed in seeds]
        agent: Learner[Any] = kind(envs, seed=list(seeds), algo=self.algo, **self.agent_settings)
        return agent


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings where env_kwargs.size = 5, as grids write it, is the entry `size` of env_kwargs."""
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        outer, dot, inner = key.partition(".")
        if dot and outer == "env_kwargs":
            nested[outer] = {**(nested.get(outer) or {}), inner: value}
        else:
            nested[key] = value
    return nested
