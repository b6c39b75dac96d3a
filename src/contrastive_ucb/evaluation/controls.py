"""Controls for the scores of agents: the random policy and the best constant action.

An agent that does not beat both has learned nothing that its score could show. Controls are
evaluated like agents: with seed s they play the evaluation episodes of the agents with seed s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.envs.registry import canonical_name, make_deep_env
from contrastive_ucb.evaluation.protocol import default_episodes, n_evaluations
from contrastive_ucb.evaluation.rollouts import (
    AT_ONCE,
    ConstantPolicy,
    Player,
    RandomPolicy,
    evaluate,
    summarize_evaluations,
)
from contrastive_ucb.training.streams import stream

CHOICE_EPISODES = AT_ONCE  # per action, to choose the best constant action


def random_control(env: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Records of the random policy, one per seed."""
    records = []
    for seed in seeds:
        policy = RandomPolicy(n_actions(env, seed), stream(seed, "random policy"))
        records.append(_record("random", env, seed, policy))
    return records


def constant_control(env: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Records of the best constant action, one per seed, with the scores of all actions.

    The action is chosen by its mean on episodes that are not part of the reported scores. Where the
    seed draws the task (DeepSea, RichLock) it is chosen for each seed, otherwise once for all.
    """
    env = canonical_name(env)
    by_seed = env.startswith(("DeepSea-", "RichLock-"))
    common = None if by_seed else constant_scores(env, seeds[0])
    records = []
    for seed in seeds:
        means = constant_scores(env, seed) if common is None else common
        action = int(means.argmax())
        choice = {"action": action, "means_of_actions": means.tolist()}
        records.append(_record("constant", env, seed, ConstantPolicy(action)) | choice)
    return records


def constant_scores(env: str, seed: int) -> Array:
    """Mean score of each constant action, (actions,).

    The episodes are not those of any evaluation of an agent: these use the environments below
    `CHOICE_EPISODES`, this the following ones.
    """
    policies = map(ConstantPolicy, range(n_actions(env, seed)))
    scores = [evaluate(one, env, seed, CHOICE_EPISODES, 0.0, index=1).mean() for one in policies]
    return np.array(scores)


def n_actions(env: str, seed: int) -> int:
    return make_deep_env(env, seed=seed, training=False).n_actions


def _record(algo: str, env: str, seed: int, policy: Player) -> dict[str, Any]:
    """The record of a control, with the keys of the summary of a run."""
    name = canonical_name(env)
    episodes = default_episodes(name)
    evaluations = [
        {"step": 0, "scores": evaluate(policy, name, seed, episodes, 0.0, index)}
        for index in reversed(range(n_evaluations(name)))
    ]
    own = {"algo": algo, "env": name, "seed": seed, "steps": 0, "bonus": "none"}
    return {**own, "evaluation": summarize_evaluations(evaluations)}
