"""Value heads: noisy linear layers (Fortunato et al. 2018) and dueling (Wang et al. 2016).

| symbol        | here                     |                                                   |
|---------------|--------------------------|---------------------------------------------------|
| mu            | `weight`, `bias`         | the layer without noise                           |
| sigma         | `weight_sigma`, `bias_sigma` | learned scale of the noise                    |
| f(eps_in), f(eps_out) | `noise_in`, `noise_out` | f(x) = sign(x) sqrt|x| of standard normal x |
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive_ucb.representation.encoders import Initializer, fill, flatten, products_in

BiasSigma = Literal["inputs", "outputs"]


class NoisyLinear(nn.Module):
    """y = (mu + sigma * f(eps_out) f(eps_in)') x + (mu_b + sigma_b * f(eps_out)).

    sigma0      sigma starts at sigma0 / sqrt(inputs), mu uniform on +-1/sqrt(inputs); 0: a plain
                linear layer without sigma
    groups      number of layers in one matrix, each with its own input noise
    rounded     data type of the product; None: that of the input
    bias_sigma  sigma of the bias starts at sigma0 / sqrt(inputs), or / sqrt(outputs of a group)
    initializer of a plain layer, see `encoders.fill`

    The noise is state: zero until `sample_noise`, then constant until the next call. The noisy
    matrix (more than a million entries on Atari) is computed once and shared by the pass that
    selects an action and the pass with a gradient.
    """

    noise_in: Tensor  # (groups, inputs)
    noise_out: Tensor  # (outputs,)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        rng: np.random.Generator,
        sigma0: float = 0.5,
        groups: int = 1,
        rounded: torch.dtype | None = None,
        bias_sigma: BiasSigma = "inputs",
        initializer: Initializer = "torch",
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.is_noisy, self.rounded = sigma0 > 0, rounded
        fill(self, inputs, rng, "torch" if self.is_noisy else initializer)
        if self.is_noisy:
            size = inputs if bias_sigma == "inputs" else outputs // groups
            self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma0 / inputs**0.5))
            self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma0 / size**0.5))
            self.register_buffer("noise_in", torch.zeros(groups, inputs))
            self.register_buffer("noise_out", torch.zeros(outputs))
        # Weight and bias with noise, with the versions of the tensors they were computed from.
        self._cache: tuple[tuple[int, ...], list[Tensor]] | None = None

    def forward(self, x: Tensor, noisy: bool = True) -> Tensor:
        """x (..., inputs); returns (..., outputs), without noise unless `noisy`."""
        parameters = self._with_noise() if noisy and self.is_noisy else [self.weight, self.bias]
        with products_in(self.rounded, x.device):
            return F.linear(x, *parameters).to(x.dtype)

    def _with_noise(self) -> list[Tensor]:
        """Weight and bias including the noise.

        Computed without a gradient, they are cached for the next pass; computed with one, they
        belong to its backward pass alone.
        """
        trained = (self.weight, self.weight_sigma, self.bias, self.bias_sigma)
        parts = (*trained, self.noise_in, self.noise_out)
        version = tuple(number for x in parts for number in (x.data_ptr(), x._version))
        if self._cache is None or self._cache[0] != version:
            outer = self.noise_out.view(len(self.noise_in), -1, 1) * self.noise_in.unsqueeze(1)
            with torch.enable_grad():
                weight = torch.addcmul(self.weight, self.weight_sigma, outer.flatten(0, 1))
                bias = torch.addcmul(self.bias, self.bias_sigma, self.noise_out)
            self._cache = version, [weight, bias]
        noisy = self._cache[1]
        if torch.is_grad_enabled():
            self._cache = None
            return noisy
        return [x.detach() for x in noisy]

    def __getstate__(self) -> dict[str, Any]:
        """Without the cache: tensors with a gradient history cannot be copied."""
        return {**self.__dict__, "_cache": None}

    def sample_noise(self, rng: np.random.Generator) -> None:
        """Draw new noise as new tensors; a pending backward pass may need the old ones."""
        if self.is_noisy:
            inputs = self.noise_in.numel()
            x = rng.standard_normal(inputs + len(self.noise_out), dtype=np.float32)
            noise = torch.from_numpy(np.copysign(np.sqrt(np.abs(x)), x)).to(self.weight.device)
            self.noise_in = noise[:inputs].view_as(self.noise_in)
            self.noise_out = noise[inputs:]
            self._cache = None

    def take_noise(self, other: NoisyLinear) -> None:
        """Use the noise of another layer of the same size."""
        if self.is_noisy:
            self.noise_in, self.noise_out, self._cache = other.noise_in, other.noise_out, None


class DuelingHead(nn.Module):
    """Latents to logits (B, A, N): hidden layers, ReLU, value + advantage - mean advantage.

    inputs          size of the flattened latent
    n_atoms         N; 1 for plain values
    hidden          width of a hidden layer
    streams         2: value and advantage have a hidden layer each (SPR, CURL); 1: they share it
                    (Dopamine's DER, OTR, DrQ)
    dueling         False: the advantages alone, on one stream
    sigma0          of the noisy layers; 0 for plain layers
    gradient_scale  factor of the gradient from the logits to the latent (1/sqrt 2 for two streams)
    rounded         data type of the product in the first, largest layer; None: float32
    bias_sigma, initializer  of the layers, see `NoisyLinear`
    """

    def __init__(
        self,
        inputs: int,
        n_actions: int,
        n_atoms: int,
        rng: np.random.Generator,
        hidden: int = 256,
        streams: int = 2,
        dueling: bool = True,
        sigma0: float = 0.5,
        gradient_scale: float = 2**-0.5,
        rounded: torch.dtype | None = None,
        bias_sigma: BiasSigma = "inputs",
        initializer: Initializer = "torch",
    ):
        super().__init__()
        self.shape = (n_actions, n_atoms)
        self.width = hidden
        self.gradient_scale = gradient_scale
        layer = partial(
            NoisyLinear, rng=rng, sigma0=sigma0, bias_sigma=bias_sigma, initializer=initializer
        )
        self.first = layer(inputs, streams * hidden, groups=streams, rounded=rounded)
        self.advantage = layer(hidden, n_actions * n_atoms)
        self.value = layer(hidden, n_atoms) if dueling else None

    def forward(self, latent: Tensor, noisy: bool = True) -> Tensor:
        """latent (B, ...); returns logits, or values with N = 1, (B, A, N)."""
        hidden = self.hidden(scale_gradient(latent, self.gradient_scale), noisy)
        flat: Tensor = self.advantage(hidden[:, -self.width :], noisy)
        advantage = flat.view(-1, *self.shape)
        if self.value is None:
            return advantage
        # With one stream, value and advantage read the same columns.
        value: Tensor = self.value(hidden[:, : self.width], noisy)
        return (value.unsqueeze(1) - advantage.mean(1, keepdim=True)) + advantage

    def projection(self, latent: Tensor) -> Tensor:
        """The first layer of both streams, before its ReLU and without noise: SPR's projection.

        latent  (B, ...); returns (B, streams * hidden)
        """
        out: Tensor = self.first(flatten(latent), noisy=False)
        return out

    def hidden(self, latent: Tensor, noisy: bool = True) -> Tensor:
        """The last hidden activations, in which the logits are linear: features for the bonus.

        latent  (B, ...); returns (B, streams * hidden), the value stream first
        """
        out: Tensor = self.first(flatten(latent), noisy)
        return out.relu()

    def sample_noise(self, rng: np.random.Generator) -> None:
        """Draw new noise for every layer."""
        for layer in self._layers():
            layer.sample_noise(rng)

    def take_noise(self, other: DuelingHead) -> None:
        """Use the noise of another head of the same size in every layer."""
        for layer, source in zip(self._layers(), other._layers(), strict=True):
            layer.take_noise(source)

    def _layers(self) -> list[NoisyLinear]:
        return [layer for layer in self.modules() if isinstance(layer, NoisyLinear)]


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """x, bit for bit, with its gradient multiplied by `scale`."""
    return torch.lerp(x.detach(), x, scale)
