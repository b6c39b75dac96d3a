"""Products in bfloat16 against explicit rounding; rescaling and its gradient against torch."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from agents.deep_play import draw, learner, started
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.representation.encoders import Encoder, rescale
from contrastive_ucb.representation.heads import DuelingHead
from contrastive_ucb.representation.spr import TransitionModel

pytestmark = pytest.mark.filterwarnings("ignore:a return of")  # of random rewards
LOW = torch.bfloat16
BREAKOUT: dict[str, Any] = {"shape": (4, 10, 10), "spr_weight": 2.0}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def uniform(*shape: int) -> Tensor:
    return torch.from_numpy(rng(3).random(shape, dtype=np.float32))


def rounded(x: Tensor) -> Tensor:
    """Rounded to 8 bits of precision, as float64."""
    mantissa, exponent = torch.frexp(x.detach().double())
    return torch.ldexp(torch.round(mantissa * 2**8) / 2**8, exponent)


def test_encoder_rounds_inputs_and_weights() -> None:
    encoder, seen = Encoder((4, 84, 84), rng(), rescaled=True, rounded=LOW), uniform(3, 4, 84, 84)
    latent = rounded(seen)
    for layer, stride in zip(encoder.layers, (4, 2, 1), strict=True):
        weight, bias = rounded(layer.weight), rounded(layer.bias)
        latent = rounded(F.conv2d(latent, weight, bias, stride)).relu()
    found = encoder(seen)
    assert found.dtype == torch.float32
    error = (found - rescale(latent)).abs().mean()
    assert error < 1e-5  # ties may be rounded either way
    plain = Encoder((4, 84, 84), rng(), rescaled=True)(seen)
    assert (found - plain).abs().mean() > 20 * error


def test_only_the_first_layer_of_the_head_is_rounded() -> None:
    head, plain = (DuelingHead(3136, 6, 51, rng(), rounded=low) for low in (LOW, None))
    latent = uniform(5, 3136)
    head.sample_noise(rng(1))
    plain.sample_noise(rng(1))
    plain_parameters = [head.first.weight, head.first.bias]
    for noisy, made in ((False, plain_parameters), (True, head.first._with_noise())):
        weight, bias = (rounded(parameter) for parameter in made)
        expected = rounded(rounded(latent) @ weight.mT + bias)
        found = head.first(latent, noisy)
        np.testing.assert_allclose(found.detach(), expected, atol=1e-4)
        assert (found - plain.first(latent, noisy)).abs().max() > 1e-3
    hidden = plain.hidden(latent)[:, -256:]
    assert torch.equal(head.advantage(hidden), plain.advantage(hidden))
    assert head(latent).dtype == torch.float32


def unroll_slowly(model: TransitionModel, latent: Tensor, moves: Tensor) -> Tensor:
    """Each layer in bfloat16, its input and output in float32, with the gradient of autograd."""

    def layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x, weight, bias = x.bfloat16(), weight.bfloat16(), bias.bfloat16()
        out = F.linear(x, weight, bias) if x.dim() == 2 else F.conv2d(x, weight, bias, padding=1)
        return out.float()

    first, second, norm = model.first, model.second, model.norm
    steps = []
    for shift in model.action_shifts(moves):
        mixed = layer(latent, first.weight[:, : model.channels], first.bias)
        normed = F.batch_norm((mixed + shift).relu(), None, None, norm.weight, norm.bias, True)
        latent = rescale(layer(normed, second.weight, second.bias).relu())
        steps.append(latent)
    return torch.stack(steps)


@pytest.mark.parametrize("shape", [(8, 7, 7), (12,)])
def test_transition_model_rounds_before_its_layers(shape: tuple[int, ...]) -> None:
    moves = torch.from_numpy(rng(4).integers(0, 3, (16, 5)))
    model, target = TransitionModel(shape, 3, rng(), rounded=LOW), uniform(5, 16, *shape)
    found = []
    for unrolled in (model, lambda *given: unroll_slowly(model, *given)):
        model.zero_grad()
        latent = uniform(16, *shape).requires_grad_()
        out = unrolled(latent, moves)
        (out * target).mean().backward()
        found.append([out, *(one.grad for one in (latent, *model.parameters()))])
    for own, slow in zip(*found, strict=True):
        assert own.dtype == torch.float32
        assert (own - slow).norm() < 0.01 * slow.norm()
    plain = TransitionModel(shape, 3, rng())(uniform(16, *shape), moves)
    assert 1e-3 < (plain - found[0][0]).norm() / plain.norm() < 0.05


def test_update_equals_float32_up_to_rounding() -> None:
    """Compares losses and the direction of every weight's change.

    Only the direction: where the largest entry of a latent is nearly as large as another, rounding
    moves the gradient of SPR's rescaling from one to the other.
    """
    agents = [
        learner(**BREAKOUT, precision=name, learning_rate=1.0, adam_eps=1.0)
        for name in ("float32", "bfloat16")
    ]
    moved, losses = [], []
    for agent in agents:
        replay, stream = started(agent)
        before = deepcopy(dict(agent.network.named_parameters()))
        losses.append(agent.update(replay, draw(agent, replay, stream)))
        after = dict(agent.network.named_parameters())
        assert {one.dtype for one in after.values()} == {torch.float32}
        moved.append({name: (x - before[name]).detach() for name, x in after.items()})
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert losses[0] != losses[1]
    for name, move in moved[0].items():
        if move.norm() > 1e-6:
            assert F.cosine_similarity(move.ravel(), moved[1][name].ravel(), 0) > 0.9, name


# --- Rescaling and memory layout


def normal(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(7).standard_normal(shape, dtype=np.float32))


def test_rescaled_constant_is_zero_with_finite_gradient() -> None:
    x = torch.stack([torch.full((3, 2, 2), 0.7), torch.zeros(3, 2, 2)]).requires_grad_()
    out = rescale(x)
    assert out.abs().max() == 0
    out.sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def plain(latent: Tensor) -> Tensor:
    """With torch's min and max, whose gradient goes to one entry each."""
    rows = latent.movedim(1, -1).flatten(1)
    low, high = rows.min(1, keepdim=True).values, rows.max(1, keepdim=True).values
    out = (rows - low) / torch.where(high == low, 1, high - low)
    return out.view(len(out), *latent.shape[2:], latent.shape[1]).movedim(-1, 1)


@given(
    shape=st.sampled_from([(3, 5), (2, 3, 2, 2), (1, 1), (4, 2, 1, 3)]),
    seed=st.integers(0, 99),
    is_channels_last=st.booleans(),
    clipped=st.booleans(),
)
def test_rescaling_and_its_gradient_equal_those_of_min_and_max(
    shape: tuple[int, ...], seed: int, is_channels_last: bool, clipped: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.standard_normal(shape))
    if clipped:
        x = x.relu()  # many equal minima, as in latents, and constant samples
    if is_channels_last and len(shape) == 4:
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_()
    gradient = torch.from_numpy(rng.standard_normal(shape))
    out = rescale(x)
    torch.testing.assert_close(out, plain(x))
    (got,) = torch.autograd.grad(out, x, gradient)
    (want,) = torch.autograd.grad(plain(x), x, gradient)
    torch.testing.assert_close(got, want)
