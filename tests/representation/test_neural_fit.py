"""Training of the neural class: loss, schedule, weight decay, standardization and errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.negatives import Negatives
from contrastive_ucb.data.observations import ObservationData, Transitions
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.representation.neural import (
    Fitted,
    NeuralClass,
    initial_weights,
    inputs,
    log_phi_of,
    log_psi,
    paper_loss,
    shared_loss,
)
from contrastive_ucb.representation.neural_fit import (
    Recipe,
    train,
)

RECIPE = Recipe(
    sampler="shared",
    least_steps=60,
    epochs=0.0,
    batch_size=32,
    n_negatives=32,
    learning_rate=0.02,
    final_rate=0.1,
    weight_decay=0.0,
    standardise=False,
)
LOCK = RichLock(3, 3, seed=1)
SHAPE = NeuralClass(LOCK.size, 3, 4)
START = initial_weights(SHAPE, 3, stream(0, "weights"))


def lock_data(count: int = 60) -> ObservationData:
    random = stream(0, "test")
    data = ObservationData(LOCK.horizon, LOCK.size, labeled=True)
    walk = LOCK.begin(count, random)
    for step in range(LOCK.horizon):
        before, action = walk.observations, random.integers(3, size=count)
        reward = walk.move(action, random)
        rows = Transitions(before, action, reward, walk.observations, np.ones(count, dtype=bool))
        data.add(step, rows)
        drawn = walk.observations[random.permutation(count)].astype(np.float32)
        data.relabel(step, count, random.random(count) < 0.5, drawn)
    return data


def fit(
    data: ObservationData, recipe: Recipe, start: dict[str, Tensor] = START, seed: int = 0
) -> Fitted:
    return train(start, SHAPE, data, Negatives(LOCK, "seen"), recipe, stream(seed, "batch"))


@pytest.mark.parametrize("sampler", ["shared", "paper"])
def test_training_reduces_the_loss_and_is_deterministic(sampler: Any) -> None:
    data, recipe = lock_data(), replace(RECIPE, sampler=sampler)
    first, second, other = (fit(data, recipe, seed=seed) for seed in (0, 0, 1))
    for name, tensor in first.weights.items():
        assert torch.equal(tensor, second.weights[name])
        assert not torch.equal(tensor, START[name])
    assert not torch.equal(other.weights["phi"], first.weights["phi"])

    def loss(weights: dict[str, Tensor]) -> Tensor:
        read = [
            torch.cat([torch.from_numpy(t), torch.ones(3, 60, 1)], -1)
            for t in (data.observation[:, :60], data.following[:, :60], data.contrast[:, :60])
        ]
        phi = log_phi_of(SHAPE, weights, read[0], torch.from_numpy(data.action[:, :60]))
        psi = log_psi(SHAPE, weights, read[1])
        if sampler == "shared":
            return shared_loss(phi, psi, psi)
        contrast = log_psi(SHAPE, weights, read[2])
        return paper_loss(phi, contrast, torch.from_numpy(data.label[:, :60]))

    assert (loss(first.weights) < loss(START) - 0.03).all()


def test_learning_rate_decays_linearly(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []

    class Recorded(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            rates.append(float(self.param_groups[0]["lr"]))
            return super().step(closure)

    monkeypatch.setattr(torch.optim, "AdamW", Recorded)
    data = lock_data()
    recipe = replace(RECIPE, least_steps=4, learning_rate=0.08, final_rate=0.5)
    fit(data, recipe)
    assert rates == pytest.approx([0.08, 0.07, 0.06, 0.05])
    rates.clear()  # with more data there are more steps
    fit(data, replace(recipe, epochs=8 * recipe.batch_size / int(data.n.max())))
    assert rates == pytest.approx([0.08 - 0.005 * step for step in range(8)])


# Standardization


def standardized(observations: np.ndarray) -> Fitted:
    """One step of training on transitions of one step h from observations (n, D)."""
    size, n = observations.shape[1], len(observations)
    data, shape = ObservationData(1, size), NeuralClass(size, 2, 3)
    following = np.random.default_rng(1).standard_normal((n, size))
    zeros = np.zeros(n, dtype=np.int64)
    data.add(0, Transitions(observations, zeros, zeros.astype(float), following, zeros == 0))
    start = initial_weights(shape, 1, stream(0, "weights"))
    recipe = replace(RECIPE, least_steps=1, batch_size=8, n_negatives=8, standardise=True)
    negatives = Negatives(RichLock(1, 2), "seen")
    return train(start, shape, data, negatives, recipe, stream(0, "batch"))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e25, 1e37])
def test_standardized_inputs_have_mean_0_and_deviation_1(size: float) -> None:
    """Regression: from 1e19 on the deviation was infinite and every input was 0."""
    rows = size * np.random.default_rng(0).standard_normal((50, 4))
    rows[:, 3] = 7 * size  # constant, so it keeps its scale
    fitted = standardized(rows)
    read = inputs(fitted.shape, torch.from_numpy(rows[None]).float(), fitted.shift, fitted.scale)
    np.testing.assert_allclose(read[0, :, :3].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(read[0, :, :3].std(0, correction=0), 1, atol=1e-4)
    np.testing.assert_array_equal(fitted.scale[0, 0, 3], 1)
    if size == 1:
        np.testing.assert_allclose(fitted.shift[0, 0], rows.mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fitted.scale[0, 0, :3], rows.std(0)[:3], rtol=1e-5)


# Values that are not finite
