"""Commands that fill gaps: from what a run is, back to what one types to get it.

A specification has every setting with its value; a command needs only those that differ from what
the command would take anyway.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from contrastive_ucb.agents.peers import GAME_PRESETS, PRESETS
from contrastive_ucb.agents.presets import BONUSES, DEEP_PRESETS, configure
from contrastive_ucb.evaluation.normalise import game_of
from contrastive_ucb.experiments.spec import RunSpec, plain_json

USUAL_EPISODES = 20  # of the evaluation that ends a run of `cucb train`
OPTIONS = {"rank": "true-rank", "reward": "reward-kind"}  # options of environments that differ


def commands(
    spec: RunSpec, seeds: Sequence[int], root: Path, eval_episodes: int | None = None
) -> list[str]:
    """What runs these seeds of `spec` into the store `root`, one command for neighbouring seeds.

    eval_episodes  of the last evaluation, which is no part of a specification
    """
    if not seeds:
        return []
    out = ["--out", str(root)]
    if spec.suite == "train":
        words = [*_train_words(spec), *_episodes(eval_episodes)]
    elif spec.suite == "solve":
        words = _solve_words(spec)
    else:  # whoever made the suite also repeats it, and skips what is done
        return [shlex.join(["cucb", spec.suite, *out])]
    return [
        shlex.join(["cucb", *words, "--seed", str(first), *_count(count), *out])
        for first, count in neighbours(seeds)
    ]


def neighbours(seeds: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of consecutive seeds: the first of each, and how many they are."""
    found: list[tuple[int, int]] = []
    for seed in sorted(set(seeds)):
        first, count = found[-1] if found else (seed, 0)
        if count and seed == first + count:
            found[-1] = (first, count + 1)
        else:
            found.append((seed, 1))
    return found


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The settings of nested mappings, each with its keys joined by dots."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def text_of(value: Any) -> str:
    """A value of a specification as options and labels write it."""
    if isinstance(value, list):
        return ",".join(text_of(one) for one in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _train_words(spec: RunSpec) -> list[str]:
    env = str(spec.config.get("env", spec.task))
    words = ["train", env, "--algo", spec.agent]
    if changes := _deep_changes(spec, env):
        words += ["--set", *changes]
    return [*words, "--steps", str(spec.config.get("steps", 100_000))]


def _deep_changes(spec: RunSpec, env: str) -> list[str]:
    """KEY=VALUE of what differs from the algorithm's own settings, with the nearest bonus."""
    own = spec.config.get("agent")
    if not isinstance(own, Mapping) or spec.agent not in DEEP_PRESETS:
        return []
    wanted = dict(flat(own))
    choices = []
    for preset in (None, *BONUSES):
        settings = {} if preset is None else {"bonus.preset": preset}
        usual = dict(flat(plain_json(asdict(_configured(spec.agent, preset, env)), "agent")))
        differs = {key: value for key, value in wanted.items() if usual.get(key) != value}
        choices.append({**settings, **differs})
    best = min(choices, key=len)  # the first of equals, so no preset where none is needed
    return [f"{key}={text_of(value)}" for key, value in best.items()]


@lru_cache
def _configured(algo: str, bonus: str | None, env: str) -> Any:
    settings = {} if bonus is None else {"bonus.preset": bonus}
    return configure(algo, settings, None if game_of(env) else _frame_shape(env))


def _frame_shape(env: str) -> tuple[int, ...] | None:
    """What the environment shows; None (as Atari) if it cannot be made here."""
    from contrastive_ucb.envs.registry import make_deep_env

    try:
        return make_deep_env(env, seed=0, training=True).frame_shape
    except (ValueError, ImportError):
        return None


def _solve_words(spec: RunSpec) -> list[str]:
    config = spec.config
    env = dict(config["env"]) if isinstance(config.get("env"), Mapping) else {}
    words = ["solve", spec.task, "--algo", spec.agent]
    if "sha256" in env:  # of the user's own file; where it is, nobody wrote down
        words, env = [*words, "--path", "FILE.npz"], {}
    if isinstance(counts := env.get("n_actions"), list):  # one count a player
        env |= dict(zip(("n_actions", "n_column_actions"), counts, strict=True))
    for key, value in env.items():
        if key != "name":
            words += [f"--{OPTIONS.get(key, key.replace('_', '-'))}", text_of(value)]
    for key, value in _finite_changes(spec).items():
        words += [f"--{key.replace('_', '-')}", text_of(value)]
    if config.get("env_seed") is not None:
        words += ["--env-seed", str(config["env_seed"])]
    return [*words, "--rounds", str(config.get("rounds", 1000))]


def _finite_changes(spec: RunSpec) -> dict[str, Any]:
    own = spec.config.get("agent")
    usual = PRESETS.get(spec.agent)
    if isinstance(own, Mapping) and ("iota" in own or usual is None):  # only games have an iota
        usual = GAME_PRESETS.get(spec.agent)
    if not isinstance(own, Mapping) or usual is None:
        return {}
    mine = plain_json(asdict(usual), "agent")
    return {key: value for key, value in own.items() if mine.get(key) != value}


def _episodes(count: int | None) -> list[str]:
    return ["--eval-episodes", str(count)] if count and count != USUAL_EPISODES else []


def _count(seeds: int) -> list[str]:
    return ["--seeds", str(seeds)] if seeds > 1 else []
