"""RiverSwim: the published probabilities and the optimal policies."""

import numpy as np
import pytest

from contrastive_ucb.envs import RiverSwim
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality
from contrastive_ucb.planning.value_iteration import greedy, plan


def test_published_probabilities() -> None:
    river = RiverSwim()
    assert (river.n_states, river.n_actions, river.horizon) == (6, 2, 20)
    step = river.transitions[7]
    np.testing.assert_array_equal(step[:, 0].argmax(-1), [0, 0, 1, 2, 3, 4])
    np.testing.assert_allclose(step[0, 1], [0.4, 0.6, 0, 0, 0, 0])
    np.testing.assert_allclose(step[2, 1], [0, 0.05, 0.6, 0.35, 0, 0])
    np.testing.assert_allclose(step[5, 1], [0, 0, 0, 0, 0.4, 0.6])
    assert river.rewards.sum() == pytest.approx(20 * 1.005)
    np.testing.assert_allclose(RiverSwim(2).transitions[0, :, 1], [[0.4, 0.6], [0.4, 0.6]])


def test_swimming_is_optimal_for_long_horizons_only() -> None:
    river, short = RiverSwim(), RiverSwim(horizon=4)
    best = greedy(plan(river.kernel, river.rewards)[0])
    assert (best[0, :, 1] == 1).all()
    swim, drift = np.ones((20, 6), dtype=int), np.zeros((20, 6), dtype=int)
    assert suboptimality(river, swim) < 0.01 * optimal_value(river)
    assert optimal_value(river) - suboptimality(river, drift) == pytest.approx(20 * 0.005)
    assert optimal_value(short) == pytest.approx(4 * 0.005)


@pytest.mark.parametrize(("sizes", "name"), [((1, 20), "n_states"), ((6, 0), "horizon")])
def test_invalid_sizes(sizes: tuple[int, int], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        RiverSwim(*sizes)
