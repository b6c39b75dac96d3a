"""Small agents on observations for the tests, and what is looked at of them."""

from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.finite.neural_model import NeuralModel
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame

QUICK: dict[str, Any] = {
    "trajectories": 4,
    "fit_steps": 5,
    "batch_size": 16,
    "n_negatives": 16,
    "n_draws": 12,
}


def lock_agent(seed: int = 0, **changes: Any) -> ContrastiveUCB:
    return ContrastiveUCB(RichLock(3, 2, seed=1), seed=seed, **{**QUICK, **changes})


def vault_agent(seed: int = 0, **changes: Any) -> ContrastiveULCB:
    return ContrastiveULCB(RichLockGame(3, 2, seed=1), seed=seed, **{**QUICK, **changes})


def model(agent: Any) -> NeuralModel:
    assert isinstance(agent.model, NeuralModel)
    return agent.model


def policies(agent: Any, kept: str = "last") -> np.ndarray:
    seen = np.random.default_rng(0).standard_normal((9, agent.envs[0].size))
    return np.stack([agent.policy_at(step, seen, kept) for step in range(agent.envs[0].horizon)])


def planned_values(agent: Any) -> np.ndarray:
    """Q of the last round at new observations."""
    seen = np.random.default_rng(0).standard_normal((9, agent.envs[0].size))
    steps = range(agent.envs[0].horizon)
    stored = model(agent).kept["last"]
    return np.stack([stored.bounds(step, seen, agent.envs[0].rewards) for step in steps])


def flat(state: Any, path: str = "") -> dict[str, Any]:
    """A nested state as one level: path -> value."""
    if not isinstance(state, dict):
        return {path: state}
    return {k: v for key, value in state.items() for k, v in flat(value, f"{path}/{key}").items()}


def assert_same_state(one: Any, other: Any, seed: int = 0, other_seed: int = 0) -> None:
    """A seed of `one` has the same state as a seed of `other`, bit for bit."""
    left, right = flat(one.state_of(seed)), flat(other.state_of(other_seed))
    assert left.keys() == right.keys()
    for path, value in left.items():
        np.testing.assert_array_equal(value, right[path], err_msg=path)
