"""The neural class: losses against plain loops, gradients against autograd, steps one by one."""

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
from contrastive_ucb.data.negatives import Negatives
from contrastive_ucb.data.observations import ObservationData, Transitions
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.representation.neural import (
    Fitted,
    NeuralClass,
    initial_weights,
    inputs,
    log_phi,
    log_phi_of,
    log_psi,
    log_ratio,
    paper_loss,
    paper_slopes,
    shared_loss,
    shared_slopes,
)
from contrastive_ucb.representation.neural_fit import Recipe, check_finite, train

H, N, M, D, A, RANK = 3, 5, 4, 6, 2, 3
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


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    drawn = scale * np.random.default_rng(len(shape)).standard_normal(shape)
    return torch.from_numpy(drawn)


def ratio(phi: Tensor, psi: Tensor) -> float:
    """f of one pair, the obvious way."""
    return sum(exp(float(p) + float(q)) for p, q in zip(phi, psi, strict=True))


def test_log_ratio_is_the_logarithm_of_the_sum() -> None:
    phi, psi = normal(H, N, RANK), normal(H, M, RANK, scale=3)
    found = log_ratio(phi, psi)
    for h, n, m in np.ndindex(H, N, M):
        assert float(found[h, n, m]) == pytest.approx(log(ratio(phi[h, n], psi[h, m])))


@pytest.mark.parametrize("size", [200.0, -200.0])
def test_log_ratio_of_huge_and_tiny_factors_is_a_number(size: float) -> None:
    phi = torch.full((1, 1, 2), size)
    found = log_ratio(phi, torch.tensor([[[size, 0.0]]]))
    assert float(found) == pytest.approx(size + max(size, 0.0), abs=1)


def test_shared_loss_is_that_of_plain_loops() -> None:
    phi, psi, negative = normal(H, N, RANK), normal(H, N, RANK, scale=2), normal(H, M, RANK)
    found = shared_loss(phi, psi, negative)
    for h in range(H):
        positives = [log(1 + 1 / ratio(phi[h, n], psi[h, n])) for n in range(N)]
        pairs = [log(1 + ratio(phi[h, n], negative[h, m])) for n in range(N) for m in range(M)]
        assert float(found[h]) == pytest.approx(np.mean(positives) + np.mean(pairs))


def test_paper_loss_is_that_of_plain_loops() -> None:
    phi, psi = normal(H, N, RANK), normal(H, N, RANK, scale=2)
    labels = torch.from_numpy(np.random.default_rng(0).integers(2, size=(H, N))).double()
    found = paper_loss(phi, psi, labels)
    for h in range(H):
        terms = []
        for n in range(N):
            f = ratio(phi[h, n], psi[h, n])
            terms.append(log(1 + 1 / f) if labels[h, n] else log(1 + f))
        assert float(found[h]) == pytest.approx(np.mean(terms))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.floats(0.1, 20))
def test_slopes_are_those_of_autograd(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = ((2, 4, 3), (2, 4, 3), (2, 5, 3))
    parts = [torch.from_numpy(scale * rng.standard_normal(s)).requires_grad_() for s in sizes]
    shared_loss(*parts).sum().backward()  # type: ignore[no-untyped-call]
    for part, slope in zip(parts, shared_slopes(*(p.detach() for p in parts)), strict=True):
        torch.testing.assert_close(part.grad, slope)
    phi, psi = (part.detach().clone().requires_grad_() for part in parts[:2])
    labels = torch.from_numpy(rng.integers(2, size=(2, 4))).double()
    paper_loss(phi, psi, labels).sum().backward()  # type: ignore[no-untyped-call]
    for part, slope in zip(
        (phi, psi), paper_slopes(phi.detach(), psi.detach(), labels), strict=True
    ):
        torch.testing.assert_close(part.grad, slope)


def network(**changes: object) -> NeuralClass:
    sizes: dict[str, object] = {"size": D, "n_actions": A, "rank": RANK}
    bounds = {"low": (0.0,) * D, "high": (2.0,) * D}
    return NeuralClass(**{**sizes, **bounds, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [{}, {"hidden": 7}, {"harmonics": 2}, {"simplex": False, "exponential": False}],
    ids=["linear", "hidden", "harmonics", "softplus"],
)
def test_all_steps_together_are_the_steps_one_by_one(changes: dict[str, object]) -> None:
    shape = network(**changes)
    weights = initial_weights(shape, H, stream(0, "test"))
    seen = normal(H, N, D).float()
    shift, scale = torch.zeros(H, 1, D), torch.ones(H, 1, D)
    read = inputs(shape, seen, shift, scale)
    assert read.shape == (H, N, shape.n_inputs)
    phi, psi = log_phi(shape, weights, read), log_psi(shape, weights, read)
    actions = torch.from_numpy(np.random.default_rng(0).integers(A, size=(H, N)))
    chosen = log_phi_of(shape, weights, read, actions)
    assert torch.isfinite(phi).all()
    assert torch.isfinite(psi).all()
    for h in range(H):
        own = {name: tensor[h : h + 1] for name, tensor in weights.items()}
        torch.testing.assert_close(log_phi(shape, own, read[h : h + 1])[0], phi[h])
        torch.testing.assert_close(log_psi(shape, own, read[h : h + 1])[0], psi[h])
        for n in range(N):
            torch.testing.assert_close(chosen[h, n], phi[h, n, actions[h, n]])
    if shape.simplex:
        torch.testing.assert_close(phi.exp().sum(-1), torch.ones(H, N, A))


def test_waves_are_read_at_their_place_in_the_bounds() -> None:
    shape = NeuralClass(1, A, RANK, harmonics=2, low=(1.0,), high=(3.0,))
    read = inputs(shape, torch.tensor([[[1.5]]]), torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    expected = [np.cos(np.pi / 2), np.cos(np.pi), np.sin(np.pi / 2), np.sin(np.pi), 1]
    np.testing.assert_allclose(read[0, 0].numpy(), expected, atol=1e-6)


def test_the_gauge_gives_every_measure_mass_one() -> None:
    shape = network()
    weights = initial_weights(shape, H, stream(0, "test"))
    plain = Fitted(shape, weights, torch.zeros(H, 1, D), torch.ones(H, 1, D), torch.zeros(H, RANK))
    nodes = normal(H, 50, D).numpy()
    fitted = plain.gauged(nodes)
    np.testing.assert_allclose(fitted.measures(nodes).sum(-1), 1, rtol=1e-5)
    phi = fitted.features(nodes)
    np.testing.assert_allclose(phi.sum(-1), 1, rtol=1e-5)
    # P^ is f P^- up to the normaliser of each row, whatever the gauge.
    product = np.einsum("hnad,hdm->hnam", phi, fitted.measures(nodes))
    read = torch.from_numpy(nodes).float()
    raw = inputs(shape, read, plain.shift, plain.scale)
    f = np.einsum(
        "hnad,hmd->hnam",
        log_phi(shape, weights, raw).exp().numpy(),
        log_psi(shape, weights, raw).exp().numpy(),
    )
    np.testing.assert_allclose(product, f / f.sum(-1, keepdims=True), rtol=1e-4)


def lock_data(horizon: int = 3, count: int = 60) -> tuple[RichLock, ObservationData]:
    lock, random = RichLock(horizon, 3, seed=1), stream(0, "test")
    data = ObservationData(horizon, lock.size, labeled=True)
    walk = lock.begin(count, random)
    for step in range(horizon):
        before, action = walk.observations, random.integers(3, size=count)
        reward = walk.move(action, random)
        rows = Transitions(before, action, reward, walk.observations, np.ones(count, dtype=bool))
        data.add(step, rows)
        drawn = walk.observations[random.permutation(count)].astype(np.float32)
        data.relabel(step, count, random.random(count) < 0.5, drawn)
    return lock, data


@pytest.mark.parametrize("sampler", ["shared", "paper"])
def test_training_lowers_the_loss_and_repeats_to_the_bit(sampler: Any) -> None:
    lock, data = lock_data()
    shape = NeuralClass(lock.size, 3, 4)
    recipe = replace(RECIPE, sampler=sampler)
    start = initial_weights(shape, 3, stream(0, "weights"))
    negatives = Negatives(lock, "seen")
    fits = [train(start, shape, data, negatives, recipe, stream(0, "batch")) for _ in range(2)]
    for name, tensor in fits[0].weights.items():
        assert torch.equal(tensor, fits[1].weights[name])
        assert not torch.equal(tensor, start[name])
    other = train(start, shape, data, negatives, recipe, stream(1, "batch"))
    assert not torch.equal(other.weights["phi"], fits[0].weights["phi"])

    def loss(weights: dict[str, Tensor]) -> Tensor:
        read = [
            torch.cat([torch.from_numpy(t), torch.ones(3, 60, 1)], -1)
            for t in (data.observation[:, :60], data.following[:, :60], data.contrast[:, :60])
        ]
        phi = log_phi_of(shape, weights, read[0], torch.from_numpy(data.action[:, :60]))
        psi = log_psi(shape, weights, read[1])
        if sampler == "shared":
            return shared_loss(phi, psi, psi)
        contrast = log_psi(shape, weights, read[2])
        return paper_loss(phi, contrast, torch.from_numpy(data.label[:, :60]))

    assert (loss(fits[0].weights) < loss(start) - 0.03).all()


def test_decayed_weights_leave_features_alike_where_the_data_is() -> None:
    """Observations without any sense: every action leads to the same noise."""
    lock, data = lock_data(count=2000)
    data.observation[:], data.following[:] = (
        np.random.default_rng(seed).standard_normal(data.observation.shape) for seed in (0, 1)
    )
    shape = NeuralClass(lock.size, 3, 4)
    start = initial_weights(shape, 3, stream(0, "weights"))
    read = torch.cat([torch.from_numpy(data.observation), torch.ones(*data.action.shape, 1)], -1)

    def spread(decay: float) -> float:
        """Mean distance between phi of two actions."""
        recipe = replace(
            RECIPE,
            least_steps=200,
            batch_size=128,
            n_negatives=128,
            learning_rate=0.05,
            weight_decay=decay,
        )
        found = train(start, shape, data, Negatives(lock, "seen"), recipe, stream(0, "batch"))
        phi = log_phi(shape, found.weights, read).exp()
        return float((phi.unsqueeze(2) - phi.unsqueeze(3)).norm(dim=-1).mean())

    none, some, much = spread(0.0), spread(0.5), spread(5.0)
    assert much < 0.5 * none
    assert much < some < none


def test_the_learning_rate_falls_on_a_straight_line(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []

    class Noting(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            rates.append(float(self.param_groups[0]["lr"]))
            return super().step(closure)

    monkeypatch.setattr(torch.optim, "AdamW", Noting)
    lock, data = lock_data()
    shape = NeuralClass(lock.size, 3, 4)
    start = initial_weights(shape, 3, stream(0, "weights"))
    recipe = replace(RECIPE, least_steps=4, learning_rate=0.08, final_rate=0.5)
    train(start, shape, data, Negatives(lock, "seen"), recipe, stream(0, "batch"))
    assert rates == pytest.approx([0.08, 0.07, 0.06, 0.05])
    rates.clear()  # with more data the line is as long as the passes over it
    passes = replace(recipe, epochs=8 * recipe.batch_size / int(data.n.max()))
    train(start, shape, data, Negatives(lock, "seen"), passes, stream(0, "batch"))
    assert rates == pytest.approx([0.08 - 0.005 * step for step in range(8)])


def test_the_loss_is_that_of_the_last_batch() -> None:
    """Of weights 0, which say f = 1 of everything, it is known; and training lowers it."""
    lock, data = lock_data()
    shape, negatives = NeuralClass(lock.size, 3, 4), Negatives(lock, "seen")
    start = initial_weights(shape, 3, stream(0, "weights"))
    nothing = {name: torch.zeros_like(weight) for name, weight in start.items()}
    once = replace(RECIPE, least_steps=1)
    found = train(nothing, shape, data, negatives, once, stream(0, "batch"))
    assert found.loss == pytest.approx(2 * np.log(2), rel=1e-6)
    long = train(start, shape, data, negatives, RECIPE, stream(0, "batch"))
    assert long.loss < 0.9 * 2 * np.log(2)
    assert Fitted.of_state(shape, long.state_dict()).loss == long.loss


@pytest.mark.parametrize(
    ("epochs", "rows", "steps"),
    [(0.0, 10**9, 200), (5.0, 5120, 200), (5.0, 5121, 201), (2.5, 128_000, 2500)],
)
def test_a_fit_takes_its_passes_over_the_data(epochs: float, rows: int, steps: int) -> None:
    recipe = replace(RECIPE, least_steps=200, batch_size=128, epochs=epochs)
    assert recipe.steps(rows) == steps


def test_standardised_inputs_have_mean_0_and_spread_1() -> None:
    lock, data = lock_data()
    shape = NeuralClass(lock.size, 3, 4)
    start = initial_weights(shape, 3, stream(0, "weights"))
    recipe = replace(RECIPE, least_steps=1, standardise=True)
    fitted = train(start, shape, data, Negatives(lock, "seen"), recipe, stream(0, "batch"))
    seen = torch.from_numpy(data.observation[:, :60])
    read = inputs(shape, seen, fitted.shift, fitted.scale)[..., :-1]
    np.testing.assert_allclose(read.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(read.std(1, correction=0), 1, atol=1e-4)


def test_a_nan_names_the_tensor_and_the_round() -> None:
    shape = network()
    weights = initial_weights(shape, H, stream(0, "test"))
    weights["psi"][1, 0, 0] = float("nan")
    zeros = torch.zeros(H, 1, D)
    with pytest.raises(ArithmeticError, match=r"'psi'.*NaN.*round 7"):
        check_finite(Fitted(shape, weights, zeros, zeros, torch.zeros(H, RANK)), 7)
