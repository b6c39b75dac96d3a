"""The neural class: losses, gradients against autograd, the gauge, training, standardization."""

from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.observations import Negatives, ObservationData, Transitions
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.representation.neural import (
    Batch,
    Fitted,
    NeuralClass,
    Recipe,
    batch_loss,
    draw_batch,
    initial_weights,
    inputs,
    log_phi,
    log_phi_of,
    log_psi,
    loss_slopes,
    paper_loss,
    paper_slopes,
    shared_loss,
    shared_slopes,
    train,
)

H, N, M, D, A, RANK = 3, 5, 4, 6, 2, 3


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    drawn = scale * np.random.default_rng(len(shape)).standard_normal(shape)
    return torch.from_numpy(drawn)


def ratio(phi: Tensor, psi: Tensor) -> float:
    """f of one pair, by definition."""
    return sum(exp(float(p) + float(q)) for p, q in zip(phi, psi, strict=True))


# Losses


def test_losses_against_loops() -> None:
    phi, psi, negative = normal(H, RANK, N), normal(H, RANK, N, scale=2), normal(H, RANK, M)
    labels = torch.from_numpy(np.random.default_rng(0).integers(2, size=(H, N))).double()
    shared, paper = shared_loss(phi, psi, negative), paper_loss(phi, psi, labels)
    for h in range(H):
        f = [ratio(phi[h, :, n], psi[h, :, n]) for n in range(N)]
        rows, columns = phi[h].T, negative[h].T
        pairs = [log(1 + ratio(row, column)) for row in rows for column in columns]
        positives = [log(1 + 1 / x) for x in f]
        assert float(shared[h]) == pytest.approx(np.mean(positives) + np.mean(pairs))
        terms = [log(1 + 1 / x) if y else log(1 + x) for x, y in zip(f, labels[h], strict=True)]
        assert float(paper[h]) == pytest.approx(np.mean(terms))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.floats(0.1, 20))
def test_gradients_against_autograd(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = ((2, 3, 4), (2, 3, 4), (2, 3, 5))
    parts = [torch.from_numpy(scale * rng.standard_normal(s)).requires_grad_() for s in sizes]
    shared_loss(*parts).sum().backward()
    phi, psi, negative = parts
    of_phi, of_psi = shared_slopes(*(part.detach() for part in parts))
    torch.testing.assert_close(phi.grad, of_phi)
    torch.testing.assert_close(torch.cat([psi.grad, negative.grad], -1), of_psi)
    phi, psi = (part.detach().clone().requires_grad_() for part in parts[:2])
    labels = torch.from_numpy(rng.integers(2, size=(2, 4))).double()
    paper_loss(phi, psi, labels).sum().backward()
    slopes = paper_slopes(phi.detach(), psi.detach(), labels)
    for part, slope in zip((phi, psi), slopes, strict=True):
        torch.testing.assert_close(part.grad, slope)


@pytest.mark.parametrize(
    ("phi", "psi"), [(-100.0, 200.0), (-150.0, 95.0), (100.0, -200.0), (-95.0, -95.0), (0.0, 0.0)]
)
def test_gradients_of_tiny_phi_and_huge_psi(phi: float, psi: float) -> None:
    """Regression: they were inf * 0 in float32, also for ordinary pairs of the same batch."""
    rng = np.random.default_rng(0)
    sizes = ((2, 3, 4), (2, 3, 4), (2, 3, 5))
    parts = [torch.from_numpy(rng.standard_normal(s).astype(np.float32)) for s in sizes]
    parts[0][..., :2] += phi
    parts[2][..., :2] += psi
    double = [part.double().requires_grad_() for part in parts]
    shared_loss(*double).sum().backward()
    grads = double[0].grad, torch.cat([double[1].grad, double[2].grad], -1)
    for slope, grad in zip(shared_slopes(*parts), grads, strict=True):
        assert slope.dtype == torch.float32
        torch.testing.assert_close(slope, grad.float(), rtol=1e-4, atol=1e-6)


# Networks


def network(**changes: object) -> NeuralClass:
    sizes: dict[str, object] = {"size": D, "n_actions": A, "rank": RANK}
    bounds = {"low": (0.0,) * D, "high": (2.0,) * D}
    return NeuralClass(**{**sizes, **bounds, **changes})  # type: ignore[arg-type]


NETWORKS: list[dict[str, object]] = [
    {},
    {"hidden": 7, "extra": 1},
    {"harmonics": 2},
    {"simplex": False, "exponential": False, "hidden": 7},
]


@pytest.mark.parametrize("changes", NETWORKS, ids=str)
def test_all_steps_together_equal_single_steps(changes: dict[str, object]) -> None:
    shape = network(**changes)
    weights = initial_weights(shape, H, stream(0, "test"))
    moments = torch.zeros(H, 1, D), torch.ones(H, 1, D)
    read = inputs(shape, normal(H, N, D).float(), *moments)
    after = inputs(shape, normal(H, N, D + shape.extra).float(), *moments)
    assert read.shape == (H, shape.n_inputs, N)
    phi, psi = log_phi(shape, weights, read), log_psi(shape, weights, after)
    actions = torch.from_numpy(np.random.default_rng(0).integers(A, size=(H, N)))
    chosen = log_phi_of(shape, weights, read, actions)
    assert torch.isfinite(phi).all()
    assert torch.isfinite(psi).all()
    for h in range(H):
        of_step = {name: tensor[h : h + 1] for name, tensor in weights.items()}
        torch.testing.assert_close(log_phi(shape, of_step, read[h : h + 1])[0], phi[h])
        torch.testing.assert_close(log_psi(shape, of_step, after[h : h + 1])[0], psi[h])
        for n in range(N):
            torch.testing.assert_close(chosen[h, :, n], phi[h, actions[h, n], :, n])
    if shape.simplex:
        torch.testing.assert_close(phi.exp().sum(2), torch.ones(H, A, N))


@pytest.mark.parametrize("sampler", ["shared", "paper"])
@pytest.mark.parametrize("scale", [1.0, 10.0])  # with 10, the heads are saturated
@pytest.mark.parametrize("changes", NETWORKS, ids=str)
def test_gradients_of_networks_against_autograd(
    changes: dict[str, object], scale: float, sampler: str
) -> None:
    shape, rng = network(**changes), np.random.default_rng(0)
    start = initial_weights(shape, H, stream(0, "test"))
    weights = {name: (scale * w).double().requires_grad_() for name, w in start.items()}
    actions = torch.from_numpy(rng.integers(A, size=(H, N)))
    labels = torch.from_numpy(rng.integers(2, size=(H, N))).double()
    moments = torch.zeros(H, 1, D).double(), torch.ones(H, 1, D).double()
    n_after = N if sampler == "paper" else N + M
    before = inputs(shape, normal(H, N, D), *moments)
    after = inputs(shape, normal(H, n_after, D + shape.extra), *moments)
    batch = Batch(before, actions, after, labels if sampler == "paper" else None)
    batch_loss(shape, weights, batch).sum().backward()
    slopes = loss_slopes(shape, {name: w.detach() for name, w in weights.items()}, batch)
    assert slopes.keys() == weights.keys()
    for name, slope in slopes.items():
        assert weights[name].grad.abs().max() > 0
        torch.testing.assert_close(slope, weights[name].grad)


def test_gauge_gives_every_measure_mass_one() -> None:
    shape = network()
    weights = initial_weights(shape, H, stream(0, "test"))
    plain = Fitted(shape, weights, torch.zeros(H, 1, D), torch.ones(H, 1, D), torch.zeros(H, RANK))
    nodes = normal(H, 50, D).numpy()
    fitted = plain.gauged(nodes)
    np.testing.assert_allclose(fitted.measures(nodes).sum(-1), 1, rtol=1e-5)
    phi = fitted.features(nodes)
    np.testing.assert_allclose(phi.sum(-1), 1, rtol=1e-5)
    # P^ equals f P^- up to the normalization of each row, in every gauge.
    product = np.einsum("hnad,hdm->hnam", phi, fitted.measures(nodes))
    raw = inputs(shape, torch.from_numpy(nodes).float(), plain.shift, plain.scale)
    f = np.einsum(
        "hadn,hdm->hnam",
        log_phi(shape, weights, raw).exp().numpy(),
        log_psi(shape, weights, raw).exp().numpy(),
    )
    np.testing.assert_allclose(product, f / f.sum(-1, keepdims=True), rtol=1e-4)


# Training

RECIPE = Recipe(
    sampler="shared",
    fit_steps=60,
    epochs=0.0,
    batch_size=32,
    n_negatives=32,
    learning_rate=0.02,
    final_rate=0.1,
    weight_decay=0.0,
    standardise="off",
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
            torch.cat([torch.from_numpy(t), torch.ones(3, 60, 1)], -1).mT
            for t in (data.observation[:, :60], data.following[:, :60], data.contrast[:, :60])
        ]
        phi = log_phi_of(SHAPE, weights, read[0], torch.from_numpy(data.action[:, :60]))
        psi = log_psi(SHAPE, weights, read[1])
        if sampler == "shared":
            return shared_loss(phi, psi, psi)
        contrast = log_psi(SHAPE, weights, read[2])
        return paper_loss(phi, contrast, torch.from_numpy(data.label[:, :60]))

    assert (loss(first.weights) < loss(START) - 0.03).all()


def test_training_equals_autograd_and_torch_adamw() -> None:
    """Also the decay of the learning rate and, with more data, the number of steps."""
    data, negatives = lock_data(), Negatives(LOCK, "seen")
    moments = torch.zeros(3, 1, LOCK.size), torch.ones(3, 1, LOCK.size)
    for changes in ({"fit_steps": 4}, {"fit_steps": 4, "epochs": 8 * 32 / int(data.n.max())}):
        recipe = replace(RECIPE, learning_rate=0.08, final_rate=0.5, weight_decay=0.3, **changes)
        fitted, steps = fit(data, recipe), 8 if "epochs" in changes else 4
        weights = {name: tensor.clone().requires_grad_() for name, tensor in START.items()}
        optimizer = torch.optim.AdamW(weights.values(), lr=0.08, weight_decay=0.3)
        random = stream(0, "batch")
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 0.08 - 0.04 * step / steps
            batch = draw_batch(SHAPE, data, negatives, recipe, moments, random)
            optimizer.zero_grad()
            batch_loss(SHAPE, weights, batch).sum().backward()
            optimizer.step()
        for name, tensor in weights.items():
            assert not torch.equal(fitted.weights[name], START[name])
            torch.testing.assert_close(fitted.weights[name], tensor.detach(), rtol=1e-4, atol=1e-5)


# Standardization


def standardized(observations: np.ndarray) -> Fitted:
    """One step of training on transitions of one step h from observations (n, D)."""
    size, n = observations.shape[1], len(observations)
    data, shape = ObservationData(1, size), NeuralClass(size, 2, 3)
    following = np.random.default_rng(1).standard_normal((n, size))
    zeros = np.zeros(n, dtype=np.int64)
    data.add(0, Transitions(observations, zeros, zeros.astype(float), following, zeros == 0))
    start = initial_weights(shape, 1, stream(0, "weights"))
    recipe = replace(RECIPE, fit_steps=1, batch_size=8, n_negatives=8, standardise="on")
    negatives = Negatives(RichLock(1, 2), "seen")
    return train(start, shape, data, negatives, recipe, stream(0, "batch"))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e25, 1e37])
def test_standardized_inputs_have_mean_0_and_deviation_1(size: float) -> None:
    """Regression: from 1e19 on the deviation was infinite and every input was 0."""
    rows = size * np.random.default_rng(0).standard_normal((50, 4))
    rows[:, 3] = 7 * size  # constant, so it keeps its scale
    fitted = standardized(rows)
    read = inputs(fitted.shape, torch.from_numpy(rows[None]).float(), fitted.shift, fitted.scale)
    np.testing.assert_allclose(read[0, :3].mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(read[0, :3].std(1, correction=0), 1, atol=1e-4)
    np.testing.assert_array_equal(fitted.scale[0, 0, 3], 1)
    if size == 1:
        np.testing.assert_allclose(fitted.shift[0, 0], rows.mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fitted.scale[0, 0, :3], rows.std(0)[:3], rtol=1e-5)
