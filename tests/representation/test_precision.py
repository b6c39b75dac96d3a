"""Products in bfloat16: which factors are rounded, and that nothing else is."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from agents.deep_play import draw, learner, started, train
from torch import Tensor

from contrastive_ucb.representation.encoders import Encoder
from contrastive_ucb.representation.heads import DuelingHead
from contrastive_ucb.representation.layers import dtype_of, rescale
from contrastive_ucb.representation.spr import TransitionModel

LOW = dtype_of("bfloat16")
BREAKOUT: dict[str, Any] = {"shape": (4, 10, 10), "spr_weight": 2.0}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def uniform(*shape: int) -> Tensor:
    return torch.from_numpy(rng(3).random(shape, dtype=np.float32))


def rounded(x: Tensor) -> Tensor:
    """To the nearest number of 8 bits, by hand, as float64."""
    mantissa, exponent = torch.frexp(x.detach().double())
    return torch.ldexp(torch.round(mantissa * 2**8) / 2**8, exponent)


def test_the_setting_names_what_products_are_rounded_to() -> None:
    assert dtype_of("float32") is None
    assert dtype_of("bfloat16") is torch.bfloat16


def test_layers_of_the_encoder_multiply_rounded_numbers() -> None:
    encoder, seen = Encoder((4, 84, 84), rng(), rescaled=True, rounded=LOW), uniform(3, 4, 84, 84)
    latent = rounded(seen)
    for layer, stride in zip(encoder.layers, (4, 2, 1), strict=True):
        weight, bias = (rounded(one) for one in (layer.weight, layer.bias))
        latent = rounded(F.conv2d(latent, weight, bias, stride)).relu()
    found = encoder(seen)
    assert found.dtype == torch.float32
    error = (found - rescale(latent)).abs().mean()
    assert error < 1e-5  # a sum next to the middle of two numbers may be rounded either way
    plain = Encoder((4, 84, 84), rng(), rescaled=True)(seen)
    assert (found - plain).abs().mean() > 20 * error


def test_the_first_layer_of_the_head_alone_is_rounded() -> None:
    head, plain = (DuelingHead(3136, 6, 51, rng(), rounded=low) for low in (LOW, None))
    latent = uniform(5, 3136)
    head.sample_noise(rng(1))
    plain.sample_noise(rng(1))
    for noisy, made in ((False, [head.first.weight, head.first.bias]), (True, head.first._make())):
        weight, bias = (rounded(one) for one in made)
        expected = rounded(rounded(latent) @ weight.mT + bias)
        found = head.first(latent, noisy)
        np.testing.assert_allclose(found.detach(), expected, atol=1e-4)
        assert (found - plain.first(latent, noisy)).abs().max() > 1e-3
    hidden = plain.hidden(latent)
    assert torch.equal(head.logits(hidden), plain.logits(hidden))
    assert head(latent).dtype == torch.float32


def unroll_slowly(model: TransitionModel, latent: Tensor, moves: Tensor) -> Tensor:
    """Each layer in bfloat16 by itself, its input and output float32, with torch's own gradient."""

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
def test_the_transition_model_rounds_before_its_layers(shape: tuple[int, ...]) -> None:
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


def test_an_update_is_that_of_float32_but_for_rounding() -> None:
    """Losses and the direction of every weight, of learners that differ in nothing else.

    Not more than the direction: where the largest entry of a latent is nearly as large as another,
    rounding moves the gradient of SPR's rescaling from one to the other.
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


@pytest.mark.parametrize("settings", [{"target_every": 3}, {"curl_weight": 1.0, "spr_weight": 0.0}])
def test_the_setting_reaches_every_large_layer(settings: dict[str, Any]) -> None:
    """Also those of the target network and of CURL's keys."""
    for name, low in (("float32", None), ("bfloat16", LOW)):
        agent = learner(**BREAKOUT | settings, precision=name)
        found = [
            (key, part.rounded)
            for net in (agent.network, agent.target)
            for key, part in net.named_modules()
            if isinstance(part, Encoder | TransitionModel) or key == "head.first"
        ]
        assert {kept for _, kept in found} == {low}
        extra = {"curl.key_encoder"} if "curl_weight" in settings else {"prediction.transition"}
        assert {key for key, _ in found} >= {"encoder", "head.first"} | extra


def test_a_learner_that_was_saved_goes_on_with_the_same_bits() -> None:
    settings = BREAKOUT | {"precision": "bfloat16"}
    straight, stopped = learner(**settings), learner(**settings)
    after = []
    for agent in (straight, stopped):
        replay, stream = started(agent)
        train(agent, replay, 4, stream)
        if agent is stopped:
            agent = learner(seed=1, **settings)
            agent.load_state_dict(stopped.state_dict())
        train(agent, replay, 4, stream)
        assert agent.n_updates == 8
        after.append(agent.network.state_dict())
    for name, weight in after[0].items():
        assert torch.equal(weight, after[1][name]), name
