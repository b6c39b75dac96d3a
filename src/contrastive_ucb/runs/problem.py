"""Problem: a run of `cucb solve` as data. Environments and settings are given by name.

The names of settings are those of the options of `cucb solve` (n_states, true_rank, negatives, ...)
and the defaults are the same, so a grid, a Python call and a command describe the same run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
from contrastive_ucb.envs.batch import Env
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.finite import kind_of
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.tabular import load_env
from contrastive_ucb.runs.spec import RunSpec

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.learner import Learner

Family = Literal["mdp", "game"]
SEEDED: dict[str, Callable[..., Env]] = {  # environments that depend on the seed
    "lowrank": LowRankMDP,
    "lock": Lock,
    "deepsea": DeepSea,
    "lowrank-game": LowRankGame,
    "lock-game": LockGame,
}
OBSERVED: dict[str, Callable[..., ObservedEnv]] = {  # learned by networks, the others by tables
    "continuous": ContinuousMDP,
    "rich-lock": RichLock,
    "rich-lock-game": RichLockGame,
    "gym": GymObserved,
}
SAME = ("riverswim", "gym", "file")  # the same environment for every seed
NAMES = (*SEEDED, "riverswim", *OBSERVED, "file")
GAMES = ("lowrank-game", "lock-game", "rich-lock-game")
# Options for arguments of environments; the agent has its own rank and reward.
OPTIONS = {"rank": "true_rank", "reward": "reward_kind", "env_id": "id"}


@dataclass(frozen=True)
class Problem:
    """What to solve and how: everything except the seed that determines the result.

    env_settings    arguments of the environment
    agent_settings  changes to the preset `algo`; None keeps its value
    env_seed        of the environment; None: the seed of the run
    probes          additional measurements, such as "package.module:Class" (see `Session`)
    stops           end the run when the environment is solved
    """

    env: str
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    algo: str = "contrastive-ucb"
    agent_settings: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1000
    env_seed: int | None = None
    suite: str = "solve"
    probes: tuple[str, ...] = ()
    stops: bool = False

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if not self.is_observed:
            check_tabular(self.agent_settings)

    @classmethod
    def of_spec(cls, spec: RunSpec) -> Problem:
        """The problem of a run."""
        config = spec.config
        env = {name: value for name, value in config["env"].items() if name != "name"}
        if "sha256" in env:  # a file, whose path is an input
            path = (spec.inputs or {"settings": {}})["settings"].get("path")
            if path is None:
                raise UserError(
                    "this run of 'cucb solve file' does not contain the path of its file; learn on "
                    "cu.TabularMDP.load(path) or cu.TabularGame.load(path), and save that agent"
                )
            env = {"path": path, "rank": env["rank"]}
            if _identity_of("file", env) != config["env"]:
                raise UserError(f"{path} has changed since the run; restore the file to load it")
        length, env_seed = config["rounds"], config["env_seed"]
        more = {"probes": tuple(config.get("probes", ())), "stops": config.get("stops", False)}
        made = (spec.task, env, spec.agent, config["agent"], length, env_seed, spec.suite)
        return cls(*made, **more)

    def spec(self, seed: int) -> RunSpec:
        config = {
            "env": _identity_of(self.env, self.env_settings),
            "env_seed": self.env_seed,
            "agent": self._agent_config(),
            "rounds": self.rounds,
            **({"probes": self.probes} if self.probes else {}),
            **({"stops": True} if self.stops else {}),
        }
        return RunSpec(self.suite, self.algo, self.env, seed, config, self.inputs())

    def inputs(self) -> dict[str, Any]:
        """Algorithm, environment, length and the settings that differ from their defaults."""
        names: dict[str, Any] = {"algo": self.algo, "env": self.env}
        given = {**names, "settings": self._options(), "length": self.rounds}
        return given if self.env_seed is None else {**given, "env_seed": self.env_seed}

    def agent(self, seeds: Sequence[int]) -> Learner[Any]:
        """The agent for these seeds; imports the algorithms."""
        env_seeds = [seed if self.env_seed is None else self.env_seed for seed in seeds]
        envs: list[Any] = [make_env(self.env, self.env_settings, seed) for seed in env_seeds]
        if self._is_game:
            from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB

            return ContrastiveULCB(envs, seed=list(seeds), algo=self.algo, **self.agent_settings)
        from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB

        return ContrastiveUCB(envs, seed=list(seeds), algo=self.algo, **self.agent_settings)

    @property
    def is_observed(self) -> bool:
        """Whether networks learn it, which train one seed at a time."""
        neural = self.agent_settings.get("representation") == "neural"
        return neural or self.env in OBSERVED

    def _options(self) -> dict[str, Any]:
        """The settings by the names of their options, without defaults."""
        default = asdict((game_preset if self._is_game else preset)(self.algo))
        agent = {
            name: value
            for name, value in self.agent_settings.items()
            if value is not None and value != default[name]
        }
        if self.env == "file":
            return {"path": str(Path(self.env_settings["path"]).absolute()), **agent}
        defaults, given = _defaults(self.env), dict(self.env_settings)
        if "rank" in defaults:  # the rank of the model is the default of the true rank
            defaults["rank"] = agent.get("rank") or defaults["rank"]
        if isinstance(counts := given.get("n_actions"), (list, tuple)):  # one per player
            given["n_actions"], columns = counts
            if columns != given["n_actions"]:
                given["n_column_actions"] = columns
        env = {
            OPTIONS.get(name, name): value
            for name, value in given.items()
            if value is not None and value != defaults.get(name)
        }
        return env | agent

    def _agent_config(self) -> dict[str, Any]:
        """The settings of the agent; those of networks do not belong to a run with tables."""
        make = game_preset if self._is_game else preset
        config = asdict(make(self.algo, **self.agent_settings))
        if self.is_observed:
            return config
        neural = {setting.name for setting in fields(NeuralConfig)}
        return {name: value for name, value in config.items() if name not in neural}

    @property
    def _is_game(self) -> bool:
        return family_of(self.env, self.env_settings) == "game"


def problem_of(
    env: str,
    algo: str,
    settings: Mapping[str, Any],
    rounds: int,
    env_seed: int | None = None,
    suite: str = "solve",
) -> Problem:
    """The problem that `cucb solve` makes of options with these names and values."""
    if env not in NAMES:
        raise UserError(f"no environment is called {env!r}; {hint(env, NAMES)}")
    given = dict(settings)
    arguments = _defaults(env)
    options = {OPTIONS.get(name, name): name for name in arguments}
    if env == "file":
        given["path"] = typed("path", given.get("path", ""), str)
        if not given["path"]:
            raise UserError("env 'file' needs a file; set path to an .npz file")
    is_game = family_of(env, given) == "game"
    kinds = kinds_of(GameConfig if is_game else AgentConfig)
    extra = ["n_column_actions"] if is_game and "n_actions" in arguments else []
    known = {*options, *kinds, *extra}
    for key in given:
        if key not in known:
            raise UserError(f"no setting of {env} is called {key!r}; {hint(key, sorted(known))}")
    for option, name in options.items():
        if option in given:
            arguments[name] = _size(option, given.pop(option), type(arguments[name]))
    agent = {key: typed(key, value, kinds[key]) for key, value in given.items() if key in kinds}
    if env_seed is not None:
        check_size("env_seed", env_seed, least=0)
    if env == "file":
        arguments["rank"] = agent.get("rank")
    elif "rank" in arguments and "true_rank" not in settings:
        arguments["rank"] = agent.get("rank") or arguments["rank"]
    if extra:
        rows = arguments["n_actions"]
        columns = _size("n_column_actions", given.get("n_column_actions", rows), int)
        arguments["n_actions"] = [rows, columns]
    return Problem(env, arguments, algo, agent, rounds, env_seed, suite)


def make_env(name: str, settings: Mapping[str, Any], seed: int) -> Any:
    """The environment `name` of this seed: a finite MDP or game, or an `ObservedEnv`."""
    if name in SEEDED:
        return SEEDED[name](**settings, seed=seed)
    if name in OBSERVED:
        return OBSERVED[name](**settings, **({} if name in SAME else {"seed": seed}))
    if name == "riverswim":
        return RiverSwim(**settings)
    if name == "file":
        return load_env(settings["path"], rank=settings.get("rank"))
    raise ValueError(f"no environment is called {name!r}; choose from {', '.join(NAMES)}")


def family_of(name: str, settings: Mapping[str, Any]) -> Family:
    """Whether the environment is an MDP or a game, which decides on the algorithms."""
    if name == "file":
        return kind_of(settings["path"])
    return "game" if name in GAMES else "mdp"


def _size(option: str, value: Any, kind: type) -> Any:
    """A setting of an environment; integers are sizes and must be positive."""
    converted = typed(option, value, kind)
    if kind is int:
        check_size(option, converted)
    return converted


def _defaults(env: str) -> dict[str, Any]:
    """The arguments of an environment with their defaults, in the order of the options."""
    if env == "file":
        return {"path": ""}
    classes = {**SEEDED, "riverswim": RiverSwim, **OBSERVED}
    parameters = signature(classes[env]).parameters.values()
    arguments = {p.name: p.default for p in parameters if p.name not in ("seed", "render_mode")}
    return {name: arguments[name] for name in sorted(arguments, key=lambda name: name in OPTIONS)}


def _identity_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies an environment: its settings; for a file its content, not its path."""
    if name != "file":
        return {"name": name, **settings}
    path = Path(settings["path"])
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return {"name": name, "rank": settings.get("rank"), "sha256": content}
