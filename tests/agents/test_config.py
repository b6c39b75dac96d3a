"""Every invalid input of the agent is an error that names the value and the remedy."""

from typing import Any

import numpy as np
import pytest

from contrastive_ucb.agents.finite.config import AgentConfig, resolve
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.presets import PRESETS, preset
from contrastive_ucb.envs import DeepSea, LowRankMDP, TabularMDP

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"alpha": -0.1}, "alpha must be at least 0, got -0.1"),
        ({"alpha": NAN}, "alpha takes a number, or none, got nan"),
        ({"alpha": "big"}, "alpha takes a number, or none, got 'big'"),
        ({"rank": "full"}, "rank takes a whole number, or none, got 'full'"),
        ({"alpha": True}, "alpha takes a number, or none, got True"),
        ({"reward_alpha": -1.0}, "reward_alpha must be at least 0"),
        ({"epsilon": 1.1}, r"epsilon must be in \[0, 1\], got 1.1"),
        ({"failure": 0.0}, "failure must be positive"),
        ({"ridge": 0.0}, "ridge must be positive, got 0.0"),
        ({"negatives": "all"}, "negatives takes one of sampled, exact, got 'all'"),
        ({"clip": "yes"}, "clip takes one of auto, on, off"),
        ({"reward": "no"}, "reward takes one of auto, known, learned"),
        (
            {"function_class": "finite", "features": "likelihood"},
            "features = 'likelihood' has no effect with function_class = 'finite'",
        ),
        (
            {"function_class": "product", "class_size": 8},
            "class_size is 8; .* needs a square, .*: 4, 9, 16",
        ),
        (
            {"reward": "linear", "features": "table"},
            "reward = 'linear' needs features, .* use reward = 'learned'",
        ),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AgentConfig(**settings)


@pytest.mark.parametrize(
    ("clip", "schedule", "clips"),
    [
        ("auto", "practical", True),
        ("auto", "theory", False),
        ("on", "theory", True),
        ("off", "practical", False),
    ],
)
def test_clip(clip: Any, schedule: Any, clips: bool) -> None:
    agent = ContrastiveUCB(LowRankMDP(4, 2, 2, 3), clip=clip, schedule=schedule, alpha=50.0)
    agent.round()
    ceiling = np.array([3.0, 2.0, 1.0])
    assert (agent.values[0].max(-1) <= ceiling).all() == clips


def test_the_old_spelling_of_a_learned_reward_is_accepted() -> None:
    assert AgentConfig(reward="learnt") == AgentConfig(reward="learned")
    assert preset("ucbvi", reward="learnt").reward == "learned"


def test_unknown_algorithm_with_and_without_a_suggestion() -> None:
    with pytest.raises(ValueError, match="'contrastive-ucp'; did you mean 'contrastive-ucb'"):
        preset("contrastive-ucp")
    with pytest.raises(ValueError, match="choose from contrastive-ucb, rep-ucb"):
        preset("zzz")


def test_presets_are_differences() -> None:
    assert PRESETS["contrastive-ucb"] == AgentConfig()
    assert preset("uniform").epsilon == 1
    assert preset("no-bonus").alpha == 0
    assert preset("no-bonus", alpha=None).alpha == 0  # None keeps the preset's value
    assert preset("rep-ucb", rank=4) == AgentConfig(features="likelihood", rank=4)


@pytest.mark.parametrize(
    ("negatives", "message"),
    [
        ([0.5, 0.5, 0.0, 0.0], "P.- gives state 2 the probability 0; .* mix P.- with"),
        ([0.25] * 3, r"P.- has shape \(3,\); it must be \(4,\)"),
        ([0.5] * 4, "P.- sums to 2; it must sum to 1"),
        ([0.25, 0.25, 0.25, NAN], "P.- sums to nan"),
    ],
)
def test_bad_negatives(negatives: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContrastiveUCB(LowRankMDP(4, 2, 2, 3), negative_distribution=np.array(negatives))


def test_given_and_tilted_negatives() -> None:
    mine = np.array([0.1, 0.2, 0.3, 0.4])
    env = LowRankMDP(4, 2, 2, 3)
    np.testing.assert_allclose(ContrastiveUCB(env, negative_distribution=mine).negatives, mine)
    np.testing.assert_array_equal(ContrastiveUCB(env).negatives, np.full(4, 0.25))
    tilted = ContrastiveUCB(env, tilt=2.0).negatives
    np.testing.assert_allclose(tilted[1:] / tilted[:-1], np.exp(-0.5))
    assert tilted.sum() == pytest.approx(1)


def unranked() -> TabularMDP:
    env = LowRankMDP(4, 2, 2, 3)
    return TabularMDP(env.transitions, env.rewards)


@pytest.mark.parametrize("algo", ["contrastive-ucb", "rep-ucb", "no-bonus"])
def test_the_error_of_a_missing_rank_suggests_the_measured_rank(algo: str) -> None:
    with pytest.raises(ValueError, match=r"declares no rank .*pass rank=d .* has rank 2"):
        ContrastiveUCB(unranked(), algo=algo)


def test_resolve_uses_the_suggestions_of_the_mdp() -> None:
    sea = DeepSea(5)
    resolved = resolve(AgentConfig(), sea)
    assert (resolved.rank, resolved.alpha, resolved.reward) == (5, sea.suggested_alpha, "learned")
    mine = resolve(AgentConfig(rank=2, alpha=0.7, reward="known"), sea)
    assert (mine.rank, mine.alpha, mine.reward) == (2, 0.7, "known")
    with_factors = resolve(AgentConfig(function_class="finite", rank=9), LowRankMDP(4, 2, 2, 3))
    assert with_factors.rank == 2  # the class holds the true factors
