"""The transition model against explicit action planes, and the SPR loss term by term."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive_ucb.representation.spr import TransitionModel, spr_loss

B, K, A, P = 6, 5, 3, 4
SHAPES = [(8, 7, 7), (4, 3, 5), (5, 1, 2), (12,)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def uniform(*shape: int, seed: int = 3) -> Tensor:
    return torch.from_numpy(rng(seed).random(shape, dtype=np.float32))


def actions(steps: int = K) -> Tensor:
    return torch.from_numpy(rng(4).integers(0, A, (B, steps)))


def rescaled_slowly(latent: Tensor) -> Tensor:
    rows = latent.movedim(1, -1).flatten(1)
    low, high = rows.min(1, keepdim=True).values, rows.max(1, keepdim=True).values
    out = (rows - low) / (high - low)
    return out.view(B, *latent.shape[2:], latent.shape[1]).movedim(-1, 1)


def unroll_slowly(model: TransitionModel, latent: Tensor, moves: Tensor) -> Tensor:
    """Concatenate action planes and latent, and apply the layers with autograd."""
    steps = []
    for move in moves.T:
        one_hot = F.one_hot(move, A).float()
        planes = one_hot.view(B, A, *(1 for _ in latent.shape[2:]))
        planes = planes.expand(-1, -1, *latent.shape[2:])
        first = F.relu(model.first(torch.cat([latent, planes], 1)))
        dims = [0, *range(2, first.dim())]
        mean, var = first.mean(dims, keepdim=True), first.var(dims, correction=0, keepdim=True)
        one = (-1, *(1 for _ in latent.shape[2:]))
        normal = (first - mean) / (var + 1e-5).sqrt()
        normal = normal * model.norm.weight.view(one) + model.norm.bias.view(one)
        latent = rescaled_slowly(F.relu(model.second(normal)))
        steps.append(latent)
    return torch.stack(steps)


@pytest.mark.parametrize("shape", SHAPES)
def test_transition_equals_concatenation(shape: tuple[int, ...]) -> None:
    """Also at the border, where zero padding removes weights of the action plane."""
    model = TransitionModel(shape, A, rng()).double()
    latent = uniform(B, *shape).double()
    got = model(latent, actions())
    assert got.shape == (K, B, *shape)
    expected = unroll_slowly(model, latent, actions())
    np.testing.assert_allclose(got.detach(), expected.detach(), atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_equal_concatenation(shape: tuple[int, ...]) -> None:
    model = TransitionModel(shape, A, rng()).double()
    with torch.no_grad():  # a non-trivial batch norm
        model.norm.weight += uniform(len(model.norm.weight))
        model.norm.bias += uniform(len(model.norm.bias), seed=6)
    latent = uniform(B, *shape).double().requires_grad_()
    upstream = uniform(K, B, *shape, seed=5).double()
    inputs = [latent, *model.parameters()]
    got = torch.autograd.grad((model(latent, actions()) * upstream).sum(), inputs)
    slow = torch.autograd.grad((unroll_slowly(model, latent, actions()) * upstream).sum(), inputs)
    for a, b in zip(got, slow, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def loss_slowly(y: Tensor, t: Tensor, mask: Tensor, weights: Tensor) -> float:
    """The definition as a double loop."""
    total = 0.0
    for b in range(B):
        terms = []
        for k in range(K):
            a, c = y[k, b].numpy().astype(float), t[k, b].numpy().astype(float)
            distance = a / np.linalg.norm(a) - c / np.linalg.norm(c)
            terms.append(float(mask[b, k]) * float(distance @ distance))
        total += float(weights[b]) * sum(terms) / K
    return total / B


def test_loss_term_by_term_with_masks_and_weights() -> None:
    y, t = uniform(K, B, P) - 0.5, uniform(K, B, P, seed=8) - 0.5
    mask = (uniform(B, K, seed=9) > 0.3).float()
    weights = uniform(B, seed=10)
    assert float(spr_loss(y, t, mask, weights)) == pytest.approx(
        loss_slowly(y, t, mask, weights), rel=1e-5
    )


def test_zero_projection_has_a_finite_gradient() -> None:
    y = torch.zeros(K, B, P, requires_grad=True)
    loss = spr_loss(y, uniform(K, B, P), torch.ones(B, K), torch.ones(B))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(1, rel=1e-5)
    assert y.grad is not None
    assert torch.isfinite(y.grad).all()
