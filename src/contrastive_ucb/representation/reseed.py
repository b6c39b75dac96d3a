"""A second start for a fit that is stuck: two latents that are alike make room for a new one.

Multiplicative steps go downhill, and with several latents downhill can end where two of them
describe one thing and a third is missing. From there no amount of data helps. So now and then the
two most similar latents are merged, the free one takes up what the worst explained pair lacks, and
whichever fit has the smaller loss after some sweeps is kept, for each seed and step on its own.

phi (B, H, Z+1, d), psi (B, H, d, S), as in `fit.py`.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.representation.sums import DenseSums, SparseSums

SMALL = 1e-2  # what the new latent has, of the mean, in pairs it was not made for


def reseeded(
    sums: DenseSums | SparseSums, phi: Array, psi: Array, negatives: Array
) -> tuple[Array, Array]:
    """Factors with one latent put to a new use in every seed and step; d must be at least 2."""
    row, surplus = sums.worst_row(phi, psi)
    mass = (psi * negatives).sum(-1)  # (B, H, d)
    phi, psi = phi * mass[:, :, None], psi / mass[..., None]  # measures of mass 1: comparable
    kept, freed = most_alike(psi * negatives)
    seed, step = np.indices(row.shape)
    used = np.matmul(sums.visits()[:, :, None], phi[:, :, :-1])[:, :, 0]  # (B, H, d)
    share = used[seed, step, kept] / (used[seed, step, kept] + used[seed, step, freed])
    merged = share[..., None] * psi[seed, step, kept]
    merged += (1 - share[..., None]) * psi[seed, step, freed]
    psi[seed, step, kept] = merged
    phi[seed, step, :, kept] += phi[seed, step, :, freed]
    lacking = surplus / np.maximum(surplus.sum(-1, keepdims=True), 1e-12) / negatives
    psi[seed, step, freed] = lacking
    phi[seed, step, :, freed] = SMALL * phi[seed, step, :, kept].mean(-1, keepdims=True)
    phi[seed, step, row, freed] = phi[seed, step, row].sum(-1) / 2
    return phi, psi


def most_alike(measures: Array) -> tuple[IntArray, IntArray]:
    """The two latents whose measures have the largest cosine.   (B, H, d, S) -> (B, H) twice"""
    unit = measures / np.linalg.norm(measures, axis=-1, keepdims=True)
    cosine = np.matmul(unit, unit.swapaxes(-1, -2))
    first, second = np.triu_indices(measures.shape[-2], 1)
    best = cosine[..., first, second].argmax(-1)
    return first[best], second[best]
