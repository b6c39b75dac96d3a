"""Commands of runs whose spec.json has no inputs, for modules that still import this name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from contrastive_ucb.agents.deep.presets import BONUSES, DEEP_PRESETS, configure
from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.agents.simple.config import SIZES, configure_simple
from contrastive_ucb.envs.registry import frame_shape_of
from contrastive_ucb.evaluation.rollouts import default_episodes
from contrastive_ucb.runs.problem import OPTIONS as WORDS
from contrastive_ucb.runs.spec import RunSpec, command_words, commands, plain_json
from contrastive_ucb.runs.spec import consecutive as neighbours
from contrastive_ucb.runs.spec import value_text as text_of
from contrastive_ucb.runs.training import Training

__all__ = [
    "commands",
    "deep_changes",
    "flat",
    "neighbours",
    "spec_elsewhere",
    "text_of",
    "words_of_spec",
]

UNKNOWN_FILE = "FILE.npz"  # a specification knows the content of a file, not its place


def words_of_spec(spec: RunSpec, eval_episodes: int | None = None) -> list[str]:
    """The words for a specification of the suite `solve` or `train`."""
    config = spec.config
    if spec.inputs is not None and spec.kind is not None:
        return command_words(spec.kind, spec.inputs, eval_episodes)
    if spec.suite == "train":
        env = str(config.get("env", spec.task))
        steps = config.get("steps", 100_000)
        return _train(env, spec.agent, deep_changes(spec), steps, eval_episodes)
    own = dict(config["env"]) if isinstance(config.get("env"), Mapping) else {}
    own.pop("name", None)
    if "sha256" in own:
        own = {"path": UNKNOWN_FILE}
    rounds, env_seed = config.get("rounds", 1000), config.get("env_seed")
    return _solve(spec.task, spec.agent, own, _finite_changes(spec), env_seed, rounds)


def spec_elsewhere(spec: RunSpec, env: str) -> RunSpec:
    """The same training in another environment, which may have settings of its own."""
    config = spec.config
    if "agent" in config:
        changes = deep_changes(spec)
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()}
        steps = config.get("steps", 100_000)
        with suppress(ValueError):  # an agent of another version
            return Training(env, spec.agent, settings, steps, spec.seed, spec.suite).spec()
    return replace(spec, task=env, config={**config, "env": env})


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The settings of nested mappings, each with its keys joined by dots."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _train(
    env: str, algo: str, settings: Mapping[str, Any], steps: int, eval_episodes: int | None
) -> list[str]:
    words = ["cucb", "train", env, "--algo", algo]
    if settings:
        words += ["--set", *(f"{key}={text_of(value)}" for key, value in settings.items())]
    words += ["--steps", str(steps), "--threads", "1"]  # as in a sweep, for the same bits
    if eval_episodes not in (None, default_episodes(env)):
        words += ["--eval-episodes", str(eval_episodes)]
    return words


def _solve(
    name: str,
    algo: str,
    env: Mapping[str, Any],
    agent: Mapping[str, Any],
    env_seed: int | None,
    rounds: int,
) -> list[str]:
    own = {WORDS.get(key, key): value for key, value in env.items() if value is not None}
    if isinstance(counts := own.get("n_actions"), (list, tuple)):  # one count a player
        own |= dict(zip(("n_actions", "n_column_actions"), counts, strict=True))
    words = ["cucb", "solve", name, "--algo", algo]
    for key, value in [*own.items(), *agent.items()]:
        words += [f"--{key.replace('_', '-')}", str(value)]
    words += [] if env_seed is None else ["--env-seed", str(env_seed)]
    return [*words, "--rounds", str(rounds)]


def deep_changes(spec: RunSpec) -> dict[str, Any]:
    """The settings of a training that differ from the defaults of its algorithm.

    They start from the bonus preset, or the size of SimPLe, that leaves the fewest differences.
    """
    env = str(spec.config.get("env", spec.task))
    own = spec.config.get("agent")
    if not isinstance(own, Mapping) or spec.agent not in (*DEEP_PRESETS, "simple"):
        return {}
    wanted = dict(flat(own))
    key, names = ("size", SIZES) if spec.agent == "simple" else ("bonus.preset", BONUSES)
    choices = []
    for name in (None, *names):
        usual = _usual(spec.agent, key, name, env)
        differs = {one: value for one, value in wanted.items() if usual.get(one) != value}
        choices.append(differs if name is None else {key: name, **differs})
    return min(choices, key=len)  # the first of equals, so no preset where none is needed


@lru_cache(maxsize=1024)
def _usual(algo: str, key: str, name: str | None, env: str) -> Mapping[str, Any]:
    """Every setting of the algorithm in this environment with a setting that stands for many."""
    settings = {} if name is None else {key: name}
    shape = _frame_shape(env)
    if algo == "simple":
        config: Any = configure_simple(settings, shape)
    else:
        config = configure(algo, settings, shape, env)
    return dict(flat(plain_json(asdict(config), "agent")))


def _frame_shape(env: str) -> tuple[int, ...] | None:
    """What the environment shows; None (as Atari) if it cannot be made here."""
    import gymnasium

    try:
        return frame_shape_of(env)
    except (ValueError, ImportError, gymnasium.error.Error):
        return None


def _finite_changes(spec: RunSpec) -> dict[str, Any]:
    own = spec.config.get("agent")
    usual = PRESETS.get(spec.agent)
    if isinstance(own, Mapping) and ("iota" in own or usual is None):  # only games have an iota
        usual = GAME_PRESETS.get(spec.agent)
    if not isinstance(own, Mapping) or usual is None:
        return {}
    mine = plain_json(asdict(usual), "agent")
    return {key: value for key, value in own.items() if mine.get(key) != value}
