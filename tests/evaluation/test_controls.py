"""Controls: the random policy and the best constant action, evaluated like agents."""

import numpy as np
import pytest

from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.evaluation import rollouts as controls
from contrastive_ucb.evaluation.rollouts import (
    ConstantPolicy,
    constant_control,
    constant_scores,
    evaluate,
    random_control,
)


def play_constant(env: str, seed: int, role: int, action: int) -> float:
    """Oracle: one episode in the evaluation environment `role`, action by action."""
    world = make_eval_envs(env, seed=seed, count=role + 1)[role]
    world.reset()
    while not world.step(action).episode_over:
        pass
    return world.raw_return


@pytest.mark.parametrize("env", ["DeepSea-6", "MinAtar/Breakout-v1"])
def test_constant_actions_are_scored_on_episodes_that_are_not_reported(env: str) -> None:
    means = constant_scores(env, 3)
    for action, mean in enumerate(means):
        scores = [play_constant(env, 3, role, action) for role in range(100, 200)]
        assert mean == pytest.approx(np.mean(scores))


def test_the_constant_control_reports_the_episodes_of_agents() -> None:
    env = "MinAtar/Breakout-v1"
    first, second = constant_control(env, range(2))
    assert first["means_of_actions"] == second["means_of_actions"]  # one game, one choice
    assert first["action"] == int(np.argmax(first["means_of_actions"]))
    for seed, record in enumerate((first, second)):
        scores = [
            evaluate(ConstantPolicy(record["action"]), env, seed, 20, 0.0, index).mean()
            for index in range(5)
        ]
        assert record["evaluation"]["mean"] == pytest.approx(np.mean(scores))
        means = [point["mean"] for point in record["evaluation"]["points"]]
        assert means == pytest.approx(scores[::-1])
        assert record["evaluation"]["episodes"] == 20


def test_in_deepsea_the_action_is_chosen_for_each_seed() -> None:
    records = constant_control("DeepSea-6", range(6))
    for seed, record in enumerate(records):
        returns = [play_constant("DeepSea-6", seed, 0, action) for action in range(2)]
        assert record["evaluation"]["mean"] == pytest.approx(max(returns))
    assert {record["action"] for record in records} == {0, 1}


def test_the_random_control_is_reproducible_and_uses_all_actions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []
    real = controls.RandomPolicy.best

    def noting(policy: controls.RandomPolicy, observations: np.ndarray) -> np.ndarray:
        actions = real(policy, observations)
        drawn.extend(actions.tolist())
        return actions

    monkeypatch.setattr(controls.RandomPolicy, "best", noting)
    one, again = random_control("DeepSea-6", [4]), random_control("DeepSea-6", [4])
    assert one == again
    assert len(drawn) == 2 * 5 * 20 * 6
    assert np.mean(drawn) == pytest.approx(0.5, abs=0.08)
