"""Planning on draws: with all states as draws it is tabular planning, and Q holds anywhere."""

import numpy as np
import torch

from contrastive_ucb.agents.finite.neural_model import Lookahead, Uncertainty, ahead_of, kernel_on
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.planning.value_iteration import plan
from contrastive_ucb.representation.neural import Fitted, NeuralClass, initial_weights

H, S, A, RANK = 4, 5, 3, 2


def fitted() -> Fitted:
    shape = NeuralClass(S, A, RANK)
    weights = initial_weights(shape, H, stream(0, "test"))
    plain = torch.zeros(H, 1, S), torch.ones(H, 1, S), torch.zeros(H, RANK)
    return Fitted(shape, weights, *plain).gauged(states())


def states() -> np.ndarray:
    """Every state as a unit vector, at every step: draws that enumerate a finite space."""
    return np.tile(np.eye(S), (H, 1, 1))


def known(step: int, seen: np.ndarray) -> np.ndarray:
    return seen @ np.random.default_rng(step).random((S, A))


def planned() -> tuple[Kernel, np.ndarray, np.ndarray, np.ndarray]:
    kernel = kernel_on(fitted(), states(), states())
    rewards = np.stack([known(h, np.eye(S)) for h in range(H)])[None]
    return kernel, rewards, *plan(kernel, rewards)


def uncertainty(**changes: object) -> Uncertainty:
    chol = np.tile(np.linalg.cholesky(np.array([[4.0, 1.0], [1.0, 3.0]])), (H, 1, 1))
    return Uncertainty(**{"chol": chol, "scale": 0.7, "cap": 0.3, **changes})  # type: ignore[arg-type]


def test_lookahead_at_the_draws_is_what_was_planned_there() -> None:
    kernel, rewards, _, _ = planned()
    sure = uncertainty()
    beta = sure.beta(kernel.features[0], slice(None)).reshape(1, H, S, A)
    ceiling = np.full(H, 1.5)
    q, values = plan(kernel, rewards + beta, ceiling)
    ahead = ahead_of(kernel, values[0])[None]
    np.testing.assert_array_equal(ahead[0, -1], 0)
    policy = Lookahead(fitted(), sure, ahead, 0 * ceiling, ceiling)
    for h in range(H):
        [found] = policy.bounds(h, np.eye(S), known)
        np.testing.assert_allclose(found, q[0, h], rtol=1e-5)


def test_beta_is_the_formula_with_its_cap_and_the_width_of_the_reward() -> None:
    phi = np.random.default_rng(1).dirichlet(np.ones(RANK), (H, 6))
    plain = uncertainty()
    inverse = np.linalg.inv(np.array([[4.0, 1.0], [1.0, 3.0]]))
    width = np.sqrt(np.einsum("hnd,de,hne->hn", phi, inverse, phi))
    np.testing.assert_allclose(plain.beta(phi, slice(None)), np.minimum(0.7 * width, 0.3))
    wider = uncertainty(reward_chol=plain.chol, reward_scale=2.0)
    expected = np.minimum(0.7 * width, 0.3) + 2 * width
    np.testing.assert_allclose(wider.beta(phi, slice(None)), expected)
