"""Latents between 0 and 1: values, the gradient against torch's own, and the order in memory."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.representation.layers import flatten, rescale


def normal(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(7).standard_normal(shape, dtype=np.float32))


@pytest.mark.parametrize("shape", [(5, 3, 4, 2), (5, 24)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_rescale_sample_by_sample(shape: tuple[int, ...], channels_last: bool) -> None:
    x = normal(*shape)
    if channels_last and len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    got = rescale(x)
    for row, out in zip(x.numpy(), got.numpy(), strict=True):
        np.testing.assert_allclose(out, (row - row.min()) / (row.max() - row.min()), atol=1e-6)
    assert got.stride() == x.stride()
    assert got.flatten(1).amin(1).tolist() == [0] * 5
    assert got.flatten(1).amax(1).tolist() == [1] * 5


def test_rescaling_a_constant_gives_zeros_and_a_finite_gradient() -> None:
    x = torch.stack([torch.full((3, 2, 2), 0.7), torch.zeros(3, 2, 2)]).requires_grad_()
    out = rescale(x)
    assert out.abs().max() == 0
    out.sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_gradient_of_rescale() -> None:
    x = normal(3, 2, 3, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(rescale, (x,))


def test_flatten_is_a_view_of_images_with_channels_last() -> None:
    image = normal(2, 3, 4, 5)
    last = image.contiguous(memory_format=torch.channels_last)
    assert flatten(last).data_ptr() == last.data_ptr()
    assert torch.equal(flatten(last), flatten(image))
    np.testing.assert_array_equal(
        flatten(image), image.numpy().transpose(0, 2, 3, 1).reshape(2, -1)
    )
    assert torch.equal(flatten(normal(2, 6)), normal(2, 6))


def plain(latent: Tensor) -> Tensor:
    """By torch's min and max, which pass their gradient to one entry each."""
    rows = latent.movedim(1, -1).flatten(1)
    low, high = rows.min(1, keepdim=True).values, rows.max(1, keepdim=True).values
    out = (rows - low) / torch.where(high == low, 1, high - low)
    return out.view(len(out), *latent.shape[2:], latent.shape[1]).movedim(-1, 1)


@given(
    shape=st.sampled_from([(3, 5), (2, 3, 2, 2), (1, 1), (4, 2, 1, 3)]),
    seed=st.integers(0, 99),
    channels_last=st.booleans(),
    clipped=st.booleans(),
)
def test_gradient_is_that_of_min_and_max(
    shape: tuple[int, ...], seed: int, channels_last: bool, clipped: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.standard_normal(shape))
    if clipped:
        x = x.relu()  # many equal minima, as in latents, and constant samples
    if channels_last and len(shape) == 4:
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_()
    gradient = torch.from_numpy(rng.standard_normal(shape))
    (got,) = torch.autograd.grad(rescale(x), x, gradient)
    (want,) = torch.autograd.grad(plain(x), x, gradient)
    torch.testing.assert_close(got, want)
