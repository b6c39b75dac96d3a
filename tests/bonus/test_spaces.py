"""Observations as arrays, and their encoders, against plain one-hot vectors and products."""

from typing import Any

import numpy as np
import pytest
import torch
from bonus_data import SPACES, N, observations
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.bonus.spaces import (
    GRID_VALUES,
    ObservationArrays,
    ObservationEncoder,
    OneHotLinear,
    squash,
)
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream


@pytest.mark.parametrize(
    ("space", "kinds"),
    [
        *[(SPACES[name], [name]) for name in ("grid", "binary", "image", "vector")],
        (spaces.Box(0, 1, (4, 4), np.uint8), ["binary"]),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), ["image"]),
        (spaces.Box(0, 1, (84, 84, 4), np.bool_), ["image"]),
        (spaces.Box(-1, 1, (3, 2)), ["vector"]),
        (spaces.Box(0, 9, (3,), np.int64), ["vector"]),
        (spaces.Discrete(4, start=-2), ["onehot"]),
        (spaces.MultiBinary((2, 2)), ["onehot"]),
        (spaces.MultiDiscrete([3, 4], start=[5, -1]), ["onehot"]),
        (SPACES["dict"], ["grid", "onehot"]),
        (SPACES["tuple"], ["onehot", "vector"]),
    ],
)
def test_kinds_and_arrays_of_spaces(space: spaces.Space[Any], kinds: list[str]) -> None:
    arrays = ObservationArrays(space)
    assert [leaf.kind for leaf in arrays.leaves] == kinds
    batch = arrays(observations(space, N, 0))
    for leaf, array in zip(arrays.leaves, batch, strict=True):
        assert array.shape == (N, *leaf.shape)
        assert array.dtype == leaf.dtype
    encoder = ObservationEncoder(arrays.leaves, (7,), stream(0, "test"))
    assert encoder(batch).shape == (N, 7 * len(kinds))
    single = torch.cat([encoder(tuple(part[i : i + 1] for part in batch)) for i in range(N)])
    torch.testing.assert_close(encoder(batch), single)


def one_hot(values: np.ndarray, sizes: list[int]) -> np.ndarray:
    rows = [
        np.concatenate([np.eye(k)[v] for v, k in zip(row, sizes, strict=True)]) for row in values
    ]
    return np.array(rows, np.float32)


@pytest.mark.parametrize(
    ("space", "sizes"),
    [
        (spaces.Box(0, 10, (2, 3), np.uint8), [11] * 6),
        (spaces.Box(0, 255, (2, 3), np.uint8), [GRID_VALUES] * 6),
        (spaces.MultiDiscrete([3, 4]), [3, 4]),
        (spaces.MultiBinary(3), [2] * 3),
        (spaces.Discrete(5), [5]),
    ],
)
def test_the_layer_of_discrete_entries_is_a_product_with_one_hot_vectors(
    space: spaces.Space[Any], sizes: list[int]
) -> None:
    arrays = ObservationArrays(space)
    batch = arrays(observations(space, 20, 0))
    values = np.minimum(batch[0].reshape(20, -1), np.array(sizes) - 1)
    inputs = torch.from_numpy(one_hot(values, sizes))
    plain = ObservationEncoder(arrays.leaves, (), stream(0, "test"))
    assert torch.equal(plain(batch), inputs)
    encoder = ObservationEncoder(arrays.leaves, (9,), stream(0, "test"))
    layer = encoder.parts[0].layers[0]
    assert isinstance(layer, OneHotLinear)
    expected = (inputs @ layer.weight + layer.bias).relu()
    torch.testing.assert_close(encoder(batch), expected)
    gradients = torch.autograd.grad(encoder(batch).square().sum(), layer.weight)[0]
    torch.testing.assert_close(
        gradients, torch.autograd.grad(expected.square().sum(), layer.weight)[0]
    )


def test_image_values_are_scaled_and_channels_come_first() -> None:
    """The same images as (H, W, C) and (C, H, W), and as bool, give the same latents."""
    first, last = (36, 40, 3), (3, 36, 40)
    images = np.random.default_rng(0).integers(0, 2, (N, *first)).astype(np.uint8)
    versions = [
        (spaces.Box(0, 255, first, np.uint8), 255 * images),
        (spaces.Box(0, 255, last, np.uint8), 255 * np.moveaxis(images, -1, 1)),
        (spaces.Box(0, 1, first, np.bool_), images.astype(bool)),
    ]
    latents = [
        ObservationEncoder((arrays := ObservationArrays(space)).leaves, (6,), stream(0, "t"))(
            arrays(x)
        )
        for space, x in versions
    ]
    assert latents[0].std() > 0
    torch.testing.assert_close(latents[1], latents[0])
    torch.testing.assert_close(latents[2], latents[0])


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=2))
def test_vectors_are_scaled_by_their_bounds_or_logarithmically(x: list[float]) -> None:
    space = spaces.Box(np.array([1.0, -np.inf]), np.array([5.0, np.inf]), dtype=np.float64)
    (leaf,) = ObservationArrays(space).leaves
    scaled = squash(torch.tensor([x]), leaf)[0].tolist()
    assert scaled[0] == pytest.approx((x[0] - 1) / 2 - 1, rel=1e-4, abs=1e-4)
    assert scaled[1] == pytest.approx(np.sign(x[1]) * np.log(1 + abs(x[1])), rel=1e-4, abs=1e-4)


def test_a_users_module_receives_tensors_of_the_space() -> None:
    class Sizes(torch.nn.Module):
        def forward(self, x: Any) -> torch.Tensor:
            given.append(x)
            first = next(iter(x.values())) if isinstance(x, dict) else x
            return first.reshape(len(first), -1).float()[:, :1]

    given: list[Any] = []
    for name in ("grid", "dict", "tuple"):
        arrays = ObservationArrays(SPACES[name])
        encoder = ObservationEncoder(arrays.leaves, (), stream(0, "test"), Sizes())
        assert encoder.dim == 1
        encoder(arrays(observations(SPACES[name], N, 0)))
    assert given[1].shape == (N, 3, 3, 2)
    assert given[1].dtype == torch.float32
    assert given[3].keys() == {"image", "direction"}
    assert given[5].keys() == {"0", "1"}
    flat = torch.nn.Flatten(0)
    with pytest.raises(UserError, match=r"shape \(18,\).*must return \(n, dim\)"):
        ObservationEncoder(ObservationArrays(SPACES["grid"]).leaves, (), stream(0, "t"), flat)


@pytest.mark.parametrize(
    ("space", "given", "message"),
    [
        ("grid", np.zeros((3, 3, 2), np.uint8), r"\[None\]"),
        ("vector", np.full((2, 2), np.inf), "NaN or infinite"),
        ("discrete", np.array([0, 6]), "integers in the space"),
        ("discrete", np.array([0.5]), "integers in the space"),
        ("discrete", np.array([-1]), "integers in the space"),
        ("grid", np.full((1, 3, 3, 2), 0.5), "float64 with 0.5.*without scaling"),
        ("grid", np.full((1, 3, 3, 2), np.nan), "integers in the space"),
        ("grid", np.full((1, 3, 3, 2), 256), "integers in the space"),
        ("binary", np.full((1, 4, 4, 3), 2), "integers in the space"),
        ("multi", np.array([[0, 4]]), "integers in the space"),
        ("dict", {"image": np.zeros((2, 3, 3, 2), np.uint8)}, "'direction'.* is missing"),
        (
            "dict",
            {"image": np.zeros((2, 3, 3, 2), np.uint8), "direction": np.zeros(3, int)},
            "different lengths",
        ),
    ],
)
def test_wrong_observations_are_one_line_errors(space: str, given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        ObservationArrays(SPACES[space])(given)
    assert "\n" not in str(error.value)


def test_unsupported_spaces_are_one_line_errors() -> None:
    for space in (
        spaces.Text(4),
        spaces.Discrete(10**6),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Dict(graph=spaces.Graph(spaces.Discrete(3), None)),
    ):
        with pytest.raises(UserError) as error:
            ObservationArrays(space)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("hidden", [(), (6,)])
def test_all_tensors_are_on_the_device_of_the_encoder(space: str, hidden: tuple[int, ...]) -> None:
    """On the device meta, which computes shapes only and refuses tensors of the CPU."""
    arrays = ObservationArrays(SPACES[space])
    encoder = ObservationEncoder(arrays.leaves, hidden, stream(0, "test")).to("meta")
    rows = encoder(arrays(observations(SPACES[space], N, 0)))
    assert rows.device.type == "meta"
    assert rows.shape == (N, encoder.dim)
