"""Planning nodes: draws of the density that the networks were trained with."""

from typing import Any

import numpy as np
import pytest

from contrastive_ucb.agents.finite.neural_model import planning_nodes
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.negatives import Negatives
from contrastive_ucb.data.observations import ObservationData, Transitions
from contrastive_ucb.envs.continuous import ContinuousMDP


def shifted_data(labeled: bool) -> ObservationData:
    """The next observation is first .2 and later .8; at step 1 all labels are 1."""
    data = ObservationData(2, 1, labeled=labeled)
    for step in range(2):
        for place, count in ((0.2, 100), (0.8, 900)):
            even = np.zeros(count, dtype=np.int64)
            rows = np.full((count, 1), place)
            data.add(step, Transitions(rows, even, even.astype(float), rows, even == 0))
            if labeled and step == 0:
                false = np.full((count, 1), 0.2, dtype=np.float32)  # as P^- was at first
                data.relabel(step, count, np.arange(count) % 2 == 0, false)
    return data


@pytest.mark.parametrize("kind", ["seen", "mixed"])
def test_stored_labels_use_the_density_of_their_negatives(kind: Any) -> None:
    """Regression: trained with .2 as the only negative, but planned on .2 and .8."""
    negatives = Negatives(ContinuousMDP(horizon=2), kind, uniform_share=0.0)
    nodes = planning_nodes(shifted_data(True), negatives, 2000, stream(0, "test"))
    np.testing.assert_allclose(nodes[0], 0.2, rtol=1e-6)
    assert abs((nodes[1] > 0.5).mean() - 0.9) < 0.05  # nothing is stored there, so today's


def test_a_fixed_density_keeps_its_even_nodes() -> None:
    negatives = Negatives(ContinuousMDP(horizon=2), "uniform")
    nodes = planning_nodes(shifted_data(True), negatives, 4, stream(0, "test"))
    np.testing.assert_allclose(nodes[0, :, 0], [0.125, 0.375, 0.625, 0.875])
