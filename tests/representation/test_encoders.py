"""Encoders against plain torch modules; shapes, initial weights and errors."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from contrastive_ucb.envs.frames import choose_encoder
from contrastive_ucb.representation.encoders import CONVOLUTIONS, Encoder, conv, linear


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(*shape: int) -> Tensor:
    return torch.from_numpy(rng(7).standard_normal(shape, dtype=np.float32))


@pytest.mark.parametrize(
    ("shape", "name", "latent"),
    [
        ((4, 84, 84), "atari", (64, 7, 7)),
        ((4, 84, 84), "data-efficient", (64, 3, 3)),
        ((6, 10, 10), "minatar", (16, 8, 8)),
        ((3, 36, 40), "atari", (64, 1, 1)),
        ((5,), "mlp", (64,)),
        ((10, 10), "mlp", (64,)),
    ],
)
def test_latent_shapes(shape: tuple[int, ...], name: str, latent: tuple[int, ...]) -> None:
    encoder = Encoder(shape, rng(), name)
    assert encoder.latent_shape == latent
    assert encoder(normal(2, *shape)).shape == (2, *latent)


def test_choose_encoder() -> None:
    assert choose_encoder((4, 84, 84)) == "atari"
    assert choose_encoder((4, 35, 84)) == "minatar"
    assert choose_encoder((6, 10, 10)) == "minatar"
    assert choose_encoder((6, 2, 10)) == "mlp"
    assert choose_encoder((10, 10)) == choose_encoder((4,)) == "mlp"
    assert Encoder((4,), rng()).name == "mlp"


# Left, right, top, bottom for 84 -> 21 -> 11 -> 11 (SAME padding of TensorFlow).
SAME_PADS = [(2, 2, 2, 2), (1, 2, 1, 2), (1, 1, 1, 1)]


def test_xavier_initialization() -> None:
    layer = conv(4, 32, 8, rng(), stride=4, initializer="xavier")
    bound = (6 / (4 * 64 + 32 * 64)) ** 0.5
    assert bound * 0.99 < layer.weight.abs().max() <= bound
    assert not layer.bias.any()
    layer = linear(100, 50, rng(), initializer="xavier")
    assert 0.19 < layer.weight.abs().max() <= 0.2  # sqrt(6 / 150)
    assert not layer.bias.any()


@pytest.mark.parametrize("name", list(CONVOLUTIONS))
def test_convolutions_equal_sequential(name: str) -> None:
    shape = (6, 10, 10) if name == "minatar" else (4, 84, 84)
    encoder = Encoder(shape, rng(), name)
    layers: list[nn.Module] = []
    pads = iter(SAME_PADS)
    for layer, (_, kernel, stride) in zip(encoder.layers, CONVOLUTIONS[name], strict=True):
        assert isinstance(layer, nn.Conv2d)
        twin = nn.Conv2d(layer.in_channels, layer.out_channels, kernel, stride)
        twin.load_state_dict(layer.state_dict())
        padded = [nn.ZeroPad2d(next(pads))] if name == "atari-same" else []
        layers += [*padded, twin, nn.ReLU()]
    frames = normal(3, *shape)
    np.testing.assert_allclose(
        encoder(frames).detach(), nn.Sequential(*layers)(frames).detach(), atol=1e-5
    )


def test_mlp_layer_by_layer() -> None:
    encoder = Encoder((2, 3), rng(), hidden=(5, 4), rescaled=True)
    x = normal(7, 2, 3)
    expected = x.numpy().reshape(7, 6)
    for layer in encoder.layers:
        assert isinstance(layer, nn.Linear)
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        expected = (expected @ weight.T + bias).clip(0)
    low, high = expected.min(1, keepdims=True), expected.max(1, keepdims=True)
    expected = (expected - low) / np.where(high > low, high - low, 1)
    np.testing.assert_allclose(encoder(x).detach(), expected, atol=1e-5)


def test_errors_name_shape_and_remedy() -> None:
    with pytest.raises(
        ValueError, match=r"\(4, 20, 20\) are too small for 'atari'; pass 'minatar'"
    ):
        Encoder((4, 20, 20), rng(), "atari")
    with pytest.raises(ValueError, match=r"needs \(C, H, W\), got \(7,\); pass 'mlp'"):
        Encoder((7,), rng(), "minatar")
    with pytest.raises(ValueError, match="unknown encoder 'resnet'; choose one of atari"):
        Encoder((4, 84, 84), rng(), "resnet")
    with pytest.raises(ValueError, match="at least 1"):
        Encoder((4,), rng(), hidden=())
