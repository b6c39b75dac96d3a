"""CURL against plain loops, and its key networks against the moving average."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.representation.curl import Curl, curl_loss
from contrastive_ucb.representation.encoders import Encoder

SHAPE = (4, 10, 10)


def make(seed: int = 0) -> tuple[Encoder, Curl]:
    rng = np.random.default_rng(seed)
    encoder = Encoder(SHAPE, rng)
    return encoder, Curl(encoder, rng)


def images(n: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((n, *SHAPE), dtype=np.float32))


@given(st.integers(1, 6), st.integers(0, 1000))
def test_loss_is_mean_cross_entropy(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, keys = rng.normal(size=(2, size, 3))
    expected = 0.0
    for i in range(size):
        logits = [0.1 * queries[i] @ keys[j] for j in range(size)]
        expected -= (logits[i] - np.log(sum(np.exp(logits)))) / size
    loss = curl_loss(torch.from_numpy(queries), torch.from_numpy(keys))
    assert loss.item() == pytest.approx(expected, abs=1e-9)


def test_weights_start_uniform_on_the_unit_interval_and_biases_at_zero() -> None:
    """As in the released code, in all three matrices."""
    _, curl = make()
    for layer in (curl.projection.first, curl.projection.second, curl.bilinear):
        weights = layer.weight.detach().flatten().sort().values
        quantiles = torch.arange(len(weights)) / len(weights)
        assert 0 <= weights[0] <= weights[-1] < 1
        assert (weights - quantiles).abs().max() < 0.02
    for layer in (curl.projection.first, curl.projection.second):
        assert not layer.bias.any()


def test_only_online_networks_have_gradients() -> None:
    encoder, curl = make()
    curl(encoder, images(5, 1), images(5, 2)).backward()
    for parameter in [*encoder.parameters(), *curl.trainable()]:
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0
    for parameter in [*curl.key_encoder.parameters(), *curl.key_projection.parameters()]:
        assert parameter.grad is None
        assert not parameter.requires_grad
    trainable = {id(parameter) for parameter in curl.trainable()}
    assert trainable == {id(x) for x in curl.parameters() if x.requires_grad}


def test_key_networks_are_moving_averages() -> None:
    encoder, curl = make()
    before = copy.deepcopy(curl)
    for online, key in zip(encoder.parameters(), curl.key_encoder.parameters(), strict=True):
        assert torch.equal(online, key)
    with torch.no_grad():
        for parameter in [*encoder.parameters(), *curl.projection.parameters()]:
            parameter.add_(1.0)
    curl.update_keys(encoder, 0.9)
    curl.update_keys(encoder, 0.9)
    pairs = [
        *zip(before.key_encoder.parameters(), curl.key_encoder.parameters(), strict=True),
        *zip(before.key_projection.parameters(), curl.key_projection.parameters(), strict=True),
    ]
    for old, new in pairs:
        torch.testing.assert_close(new, old + 1 - 0.9**2)
