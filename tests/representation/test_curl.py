"""CURL against plain loops, and its key networks against the recursion they follow."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.representation.augment import random_crop
from contrastive_ucb.representation.curl import Curl, Projection, curl_loss, follow
from contrastive_ucb.representation.encoders import Encoder

SHAPE = (4, 10, 10)


def make(seed: int = 0) -> tuple[Encoder, Curl]:
    rng = np.random.default_rng(seed)
    encoder = Encoder(SHAPE, rng)
    return encoder, Curl(encoder, rng)


def images(n: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((n, *SHAPE), dtype=np.float32))


@given(st.integers(1, 6), st.integers(0, 1000))
def test_the_loss_is_the_mean_surprise_at_the_own_key(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, keys = rng.normal(size=(2, size, 3))
    expected = 0.0
    for i in range(size):
        logits = [0.1 * queries[i] @ keys[j] for j in range(size)]
        expected -= (logits[i] - np.log(sum(np.exp(logits)))) / size
    found = curl_loss(torch.from_numpy(queries), torch.from_numpy(keys))
    assert found.item() == pytest.approx(expected, abs=1e-9)


def test_logits_are_bilinear_in_query_and_key_code() -> None:
    encoder, curl = make()
    one, other = images(5, 1), images(5, 2)
    q, k = curl.projection(encoder(one)), curl.key_projection(curl.key_encoder(other))
    logits = torch.stack([torch.stack([0.1 * a @ curl.bilinear.weight @ b for b in k]) for a in q])
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(5))
    torch.testing.assert_close(curl(encoder, one, other), expected)


def test_codes_are_two_layers_with_layer_norms() -> None:
    projection = Projection(6, np.random.default_rng(0))
    latent = images(2).flatten(1)[:, :6]
    hidden = latent @ projection.first.weight.T + projection.first.bias
    hidden = (hidden - hidden.mean(-1, keepdim=True)) / (hidden.var(-1, correction=0) + 1e-5)[
        :, None
    ].sqrt()
    code = hidden.clamp(min=0) @ projection.second.weight.T + projection.second.bias
    code = (code - code.mean(-1, keepdim=True)) / (code.var(-1, correction=0) + 1e-5)[
        :, None
    ].sqrt()
    assert code.shape == (2, 128)
    torch.testing.assert_close(projection(latent), code)
    names = {name for name, _ in projection.named_parameters()}
    assert names == {"first.weight", "first.bias", "second.weight", "second.bias"}  # none of norms


def test_gradients_reach_the_online_networks_alone() -> None:
    encoder, curl = make()
    curl(encoder, images(5, 1), images(5, 2)).backward()
    for parameter in [*encoder.parameters(), *curl.learned()]:
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0
    for parameter in [*curl.key_encoder.parameters(), *curl.key_projection.parameters()]:
        assert parameter.grad is None
        assert not parameter.requires_grad
    learned = {id(parameter) for parameter in curl.learned()}
    assert learned == {id(one) for one in curl.parameters() if one.requires_grad}


def test_key_networks_start_as_copies_and_follow() -> None:
    encoder, curl = make()
    before = copy.deepcopy(curl)
    for mine, theirs in zip(encoder.parameters(), curl.key_encoder.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    with torch.no_grad():
        for one in [*encoder.parameters(), *curl.projection.parameters()]:
            one.add_(1.0)
    curl.follow(encoder, 0.9)
    curl.follow(encoder, 0.9)
    pairs = [
        *zip(before.key_encoder.parameters(), curl.key_encoder.parameters(), strict=True),
        *zip(before.key_projection.parameters(), curl.key_projection.parameters(), strict=True),
    ]
    for old, new in pairs:
        torch.testing.assert_close(new, old + 1 - 0.9**2)


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_following_at_its_ends(momentum: float) -> None:
    one, other = (Projection(3, np.random.default_rng(seed)) for seed in (0, 1))
    start = copy.deepcopy(one)
    follow(one, other, momentum)
    expected = start if momentum else other
    for new, old in zip(one.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(new, old)


@given(st.integers(0, 1000), st.integers(1, 3))
def test_a_crop_is_a_cut_a_pad_and_a_cut(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (3, 2, 7, 6), dtype=np.uint8)
    offsets = rng.integers(0, cut + 1, (3, 4))
    found = random_crop(frames, offsets, cut)
    for sample in range(3):
        row, column, low, left = offsets[sample]
        for plane in range(2):
            inner = frames[sample, plane][row : row + 7 - cut, column : column + 6 - cut]
            padded = np.pad(inner, cut, mode="edge")
            expected = padded[low : low + 7, left : left + 6]
            assert np.array_equal(found[sample, plane], expected)
