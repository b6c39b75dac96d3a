"""The networks of one round as functions of observations: phi^ and psi^ in the gauge of E3."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.representation.neural import (
    NeuralClass,
    Weights,
    inputs,
    log_phi,
    log_phi_of,
    log_psi,
    normalised,
)

Observations = Array | NDArray[np.float32]


@dataclass(frozen=True)
class Fitted:
    """Weights with what belongs to them.

    shift, scale  (H, 1, D)  of the inputs
    log_mass      (H, d)     log E[psi~_j] under P^-, which fixes the gauge
    loss                     the contrastive loss of the last batch, mean over h; nan: of old ones
    """

    shape: NeuralClass
    weights: Weights
    shift: Tensor
    scale: Tensor
    log_mass: Tensor
    loss: float = nan

    @torch.no_grad()
    def gauged(self, nodes: Observations) -> Fitted:
        """Line 7: the gauge in which every measure has mass 1 on the nodes (H, m, D)."""
        psi = log_psi(self.shape, self.weights, self._read(nodes))
        return replace(self, log_mass=torch.logsumexp(psi, 1) - float(np.log(nodes.shape[1])))

    @torch.no_grad()
    def features(self, observations: Observations) -> Array:
        """phi^_h(o, a) at every step   (H, n, D) -> (H, n, A, d)"""
        phi = log_phi(self.shape, self.weights, self._read(observations))
        return _float64(normalised(phi, self.log_mass))

    @torch.no_grad()
    def features_of(self, observations: Observations, actions: IntArray) -> Array:
        """phi^_h(z) of given pairs   (H, n, D), (H, n) -> (H, n, d)"""
        read = self._read(observations)
        phi = log_phi_of(self.shape, self.weights, read, torch.from_numpy(actions))
        return _float64(normalised(phi[:, :, None], self.log_mass)[:, :, 0])

    @torch.no_grad()
    def measures(self, observations: Observations) -> Array:
        """psi^_h,j(o') P^-(o') where each o' stands for an equal share of P^-

        (H, m, D) -> (H, d, m); on the nodes of the gauge every measure has mass 1
        """
        psi = log_psi(self.shape, self.weights, self._read(observations))
        return _float64((psi - self.log_mass[:, None]).exp().mT / observations.shape[1])

    def at(self, step: int) -> Fitted:
        """The same for one step alone."""
        one = slice(step, step + 1)
        weights = {name: tensor[one] for name, tensor in self.weights.items()}
        return Fitted(self.shape, weights, self.shift[one], self.scale[one], self.log_mass[one])

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "shape"}

    @staticmethod
    def of_state(shape: NeuralClass, state: dict[str, Any]) -> Fitted:
        return Fitted(shape, **state)

    def _read(self, observations: Observations) -> Tensor:
        seen = torch.from_numpy(np.ascontiguousarray(observations, dtype=np.float32))
        return inputs(self.shape, seen, self.shift, self.scale)


def _float64(tensor: Tensor) -> Array:
    return tensor.double().numpy()
