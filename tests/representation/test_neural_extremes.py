"""The neural class where numbers are huge, tiny or none: slopes, moments and what is said."""

from dataclasses import replace

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
    shared_loss,
    shared_slopes,
)
from contrastive_ucb.representation.neural_fit import (
    Recipe,
    check_features,
    check_finite,
    train,
)

SIZE = 4
RECIPE = Recipe(
    sampler="shared",
    least_steps=1,
    epochs=0.0,
    batch_size=8,
    n_negatives=8,
    learning_rate=0.01,
    final_rate=1.0,
    weight_decay=0.0,
    standardise=True,
)


def of_autograd(parts: list[Tensor]) -> list[Tensor]:
    wide = [part.double().requires_grad_() for part in parts]
    shared_loss(*wide).sum().backward()  # type: ignore[no-untyped-call]
    return [part.grad.float() for part in wide if part.grad is not None]


@pytest.mark.parametrize(
    ("phi", "psi"), [(-100.0, 200.0), (-150.0, 95.0), (100.0, -200.0), (-95.0, -95.0), (0.0, 0.0)]
)
def test_slopes_of_tiny_phi_and_huge_psi_were_inf_times_0(phi: float, psi: float) -> None:
    """In float32, as training has them, with ordinary pairs beside the extreme ones."""
    rng = np.random.default_rng(0)
    sizes = ((2, 4, 3), (2, 4, 3), (2, 5, 3))
    parts = [torch.from_numpy(rng.standard_normal(s).astype(np.float32)) for s in sizes]
    parts[0][:, :2] += phi
    parts[2][:, :2] += psi
    found = shared_slopes(*parts)
    for slope, expected in zip(found, of_autograd(parts), strict=True):
        assert slope.dtype == torch.float32
        torch.testing.assert_close(slope, expected, rtol=1e-4, atol=1e-6)


def data_of(observations: np.ndarray) -> ObservationData:
    """One step whose transitions start from these observations (n, D)."""
    data, n = ObservationData(1, SIZE), len(observations)
    lead = np.random.default_rng(1).standard_normal((n, SIZE))
    still = np.zeros(n, dtype=np.int64)
    data.add(0, Transitions(observations, still, still.astype(float), lead, still == 0))
    return data


def standardised(observations: np.ndarray) -> Fitted:
    shape = NeuralClass(SIZE, 2, 3)
    start = initial_weights(shape, 1, stream(0, "weights"))
    negatives = Negatives(RichLock(1, 2), "seen")
    return train(start, shape, data_of(observations), negatives, RECIPE, stream(0, "batch"))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e25, 1e37])
def test_the_spread_of_large_observations_was_infinite(size: float) -> None:
    """Every input was 0 from 1e19 on, and nothing was said."""
    seen = size * np.random.default_rng(0).standard_normal((50, SIZE))
    seen[:, 3] = 7 * size  # never changes, so it keeps its scale
    fitted = standardised(seen)
    read = inputs(fitted.shape, torch.from_numpy(seen[None]).float(), fitted.shift, fitted.scale)
    np.testing.assert_allclose(read[0, :, :3].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(read[0, :, :3].std(0, correction=0), 1, atol=1e-4)
    np.testing.assert_array_equal(fitted.scale[0, 0, 3], 1)
    if size == 1:
        plain = seen.astype(np.float32)
        np.testing.assert_allclose(fitted.shift[0, 0], plain.mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fitted.scale[0, 0, :3], plain.std(0)[:3], rtol=1e-5)


def test_observations_that_cannot_be_standardised_are_said() -> None:
    seen = np.full((50, SIZE), -3e38)
    seen[0] = 3e38  # finite, but not when the mean is taken from it
    with pytest.raises(ArithmeticError, match=r"step 0 go from -3e\+38 to 3e\+38.*standardise"):
        standardised(seen)


def test_a_mass_was_called_a_weight() -> None:
    shape = NeuralClass(SIZE, 2, 3)
    weights = initial_weights(shape, 1, stream(0, "weights"))
    zeros = torch.zeros(1, 1, SIZE)
    good = Fitted(shape, weights, zeros, zeros, torch.zeros(1, 3))
    check_finite(good, 7)
    with pytest.raises(ArithmeticError, match=r"^log_mass.* has a NaN.*round 7") as caught:
        check_finite(replace(good, log_mass=torch.full((1, 3), float("inf"))), 7)
    assert "weights" not in str(caught.value)


def test_features_that_are_no_numbers_name_step_and_round() -> None:
    phi = np.ones((3, 5, 2))
    check_features(phi, 4)
    phi[1, 3, 0] = np.nan
    with pytest.raises(ArithmeticError, match=r"features phi have a NaN.*step 1 of round 4"):
        check_features(phi, 4)
