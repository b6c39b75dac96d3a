"""Noisy layers and the dueling head against numpy."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from contrastive_ucb.representation.heads import DuelingHead, NoisyLinear, scale_gradient

B, INPUTS, A, N, HIDDEN = 5, 12, 3, 4, 6


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def latents(size: int = INPUTS) -> Tensor:
    return torch.from_numpy(rng(9).standard_normal((B, size), dtype=np.float32))


def head(**options: float) -> DuelingHead:
    made = DuelingHead(INPUTS, A, N, rng(), **{"hidden": HIDDEN, **options})  # type: ignore[arg-type]
    made.sample_noise(rng(1))
    return made


def numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def noisy_slowly(layer: NoisyLinear, x: np.ndarray) -> np.ndarray:
    """y_i = sum_j (mu_ij + sigma_ij f_i f_j) x_j + mu_i + sigma_i f_i, sum by sum."""
    outputs, inputs = layer.weight.shape
    per_group = outputs // len(layer.noise_in)
    mu, sigma = numpy(layer.weight), numpy(layer.weight_sigma)
    f_in, f_out = numpy(layer.noise_in), numpy(layer.noise_out)
    y = numpy(layer.bias) + numpy(layer.bias_sigma) * f_out + np.zeros((len(x), 1))
    for i in range(outputs):
        for j in range(inputs):
            y[:, i] += (mu[i, j] + sigma[i, j] * f_out[i] * f_in[i // per_group, j]) * x[:, j]
    return y


@pytest.mark.parametrize("groups", [1, 2])
def test_noisy_layer_sum_by_sum(groups: int) -> None:
    layer = NoisyLinear(INPUTS, 6, rng(), groups=groups)
    layer.sample_noise(rng(1))
    x = latents()
    np.testing.assert_allclose(numpy(layer(x)), noisy_slowly(layer, x.numpy()), atol=1e-5)


def test_noise_has_mean_zero_and_is_factorized() -> None:
    layer = NoisyLinear(8, 6, rng(), sigma0=0.5)
    stream, draws = rng(2), []
    eye = torch.eye(8)
    for _ in range(4000):
        layer.sample_noise(stream)
        draws.append(numpy(layer(eye) - layer(torch.zeros(1, 8))).T)  # the noisy weight
    noise = (np.array(draws) - numpy(layer.weight)) / numpy(layer.weight_sigma)
    assert np.linalg.matrix_rank(noise[0], tol=1e-4) == 1
    # f(eps) is sign(x) sqrt|x|, so E[(f_i f_j)^2] = (E|x|)^2 = 2 / pi.
    assert np.abs(noise.mean(0)).max() < 5 * (2 / np.pi / 4000) ** 0.5
    assert float((noise**2).mean()) == pytest.approx(2 / np.pi, rel=0.05)


def test_new_noise_does_not_affect_a_pending_backward_pass() -> None:
    layer = NoisyLinear(8, 6, rng())
    layer.sample_noise(rng(1))
    x = latents(8)
    loss, noise = layer(x).sum(), torch.outer(layer.noise_out, layer.noise_in[0])
    layer.sample_noise(rng(2))
    loss.backward()
    assert layer.weight_sigma.grad is not None
    np.testing.assert_allclose(layer.weight_sigma.grad, noise * x.sum(0), atol=1e-5)


def dueling_slowly(made: DuelingHead, x: np.ndarray) -> np.ndarray:
    """Value and advantage streams, action by action."""
    hidden = noisy_slowly(made.first, x).clip(0)
    advantage = noisy_slowly(made.advantage, hidden[:, -HIDDEN:]).reshape(B, A, N)
    assert made.value is not None
    value = noisy_slowly(made.value, hidden[:, :HIDDEN])
    mean = sum(advantage[:, a] for a in range(A)) / A
    return np.stack([value + advantage[:, a] - mean for a in range(A)], 1)


@pytest.mark.parametrize("streams", [1, 2])
def test_dueling_head_stream_by_stream(streams: int) -> None:
    made = head(streams=streams)
    expected = dueling_slowly(made, latents().numpy())
    np.testing.assert_allclose(numpy(made(latents())), expected, atol=1e-5)


def test_without_dueling_logits_are_advantages() -> None:
    made = head(dueling=False, streams=1)
    expected = noisy_slowly(made.advantage, numpy(made.hidden(latents()))).reshape(B, A, N)
    np.testing.assert_allclose(numpy(made(latents())), expected, atol=1e-5)
    assert not [key for key in made.state_dict() if key.startswith("value")]


def test_projection_is_the_first_layer_without_noise_and_relu() -> None:
    made = head()
    expected = latents().numpy() @ numpy(made.first.weight).T + numpy(made.first.bias)
    projected = numpy(made.projection(latents()))
    assert projected.shape == (B, 2 * HIDDEN)
    assert projected.min() < 0
    np.testing.assert_allclose(projected, expected, atol=1e-5)
    quiet = made.hidden(latents(), noisy=False)
    np.testing.assert_allclose(numpy(quiet), expected.clip(0), atol=1e-5)


def test_scale_gradient_keeps_values() -> None:
    x = latents().requires_grad_()
    for scale in (2**-0.5, 0.3, 0.0, 1.0):
        y = scale_gradient(x, scale)
        assert torch.equal(x, y)
        (gradient,) = torch.autograd.grad((y**2).sum(), x)
        np.testing.assert_allclose(gradient, numpy(2 * scale * x), rtol=1e-5)


def test_cached_noisy_matrix_equals_a_new_one() -> None:
    """The cache is never older than the weights or the noise."""
    layer, x = NoisyLinear(INPUTS, 6, rng(), groups=2), torch.randn(3, INPUTS)
    layer.sample_noise(rng())
    with torch.no_grad():
        first = layer(x)
    second = layer(x)
    second.sum().backward()
    gradient = layer.weight_sigma.grad
    layer.zero_grad()
    third = layer(x)  # made anew: the second has gone through its backward pass
    third.sum().backward()
    assert torch.equal(first, second)
    assert torch.equal(second, third)
    assert gradient is not None
    assert layer.weight_sigma.grad is not None
    assert torch.equal(gradient, layer.weight_sigma.grad)


@pytest.mark.parametrize("change", ["step", "load", "noise", "loaded noise"])
def test_cache_is_invalidated_by_changes(change: str) -> None:
    layer, other = NoisyLinear(INPUTS, 6, rng()), NoisyLinear(INPUTS, 6, rng())
    x = torch.randn(3, INPUTS)
    for each in (layer, other):
        each.sample_noise(rng())
    with torch.no_grad():
        layer(x)
        if change == "step":
            for each in (layer, other):
                each.weight_sigma.add_(1.0)
        elif change == "load":
            other.bias.add_(1.0)
            layer.load_state_dict(other.state_dict())
        elif change == "noise":
            for each in (layer, other):
                each.sample_noise(np.random.default_rng(5))
        else:
            other.noise_out.mul_(2.0)
            layer.load_state_dict(other.state_dict())
        assert torch.equal(layer(x), other(x))


def test_used_layer_can_be_copied() -> None:
    layer, x = NoisyLinear(INPUTS, 6, rng()), torch.randn(3, INPUTS)
    layer.sample_noise(rng())
    with torch.no_grad():
        assert torch.equal(layer(x), copy.deepcopy(layer)(x))
