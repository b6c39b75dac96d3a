"""RiverSwim: the published probabilities and the optimal policies."""

import numpy as np
import pytest

from contrastive_ucb.envs import RiverSwim


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


@pytest.mark.parametrize(("sizes", "name"), [((1, 20), "n_states"), ((6, 0), "horizon")])
def test_invalid_sizes(sizes: tuple[int, int], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        RiverSwim(*sizes)
