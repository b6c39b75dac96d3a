"""Exact evaluation in finite MDPs: no Monte Carlo where a sum is possible.

| paper         | here             |                                                            |
|---------------|------------------|------------------------------------------------------------|
| d~_h^pi       | `rolled_in`      | policy to step h, then a uniform action (l.176)            |
| d-breve_h^pi  | `one_step_later` | one step after d~_{h-1}, again a uniform action (l.176)    |
| zeta, xi      | `model_error`    | mean squared L1 distance of the kernels, under rho of each |
| V* - V^pi     | `suboptimality`  | what one round adds to the regret                          |

z = (s, a) is the one number s * A + a; leading axes are seeds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.planning.value_iteration import plan, policy_value


def rolled_in(occupancy: Array, n_actions: int) -> Array:
    """d~_h(s,a) = d_h(s) / A.   occupancy (..., H, S) -> (..., H, Z)"""
    return np.repeat(occupancy, n_actions, axis=-1) / n_actions


def one_step_later(kernel: Kernel, d_tilde: Array) -> Array:
    """d-breve_h(s,a) = sum_z d~_{h-1}(z) P_{h-1}(s|z) / A, for the true kernel.

    d_tilde  (..., H, Z); returns (..., H, Z), zero at the first step, which has no step before it
    """
    n_actions = d_tilde.shape[-1] // kernel.n_states
    leading = np.broadcast_shapes(kernel.features.shape[:-3], d_tilde.shape[:-2])
    d_breve = np.zeros(leading + d_tilde.shape[-2:])
    for h in range(1, d_tilde.shape[-2]):
        arrivals = kernel.push(h - 1, d_tilde[..., h - 1, :])
        d_breve[..., h, :] = rolled_in(arrivals, n_actions)
    return d_breve


def squared_distance(true: Kernel, learnt: Kernel, chunk: int = 1 << 18) -> Array:
    """||P_h(.|z) - P^_h(.|z)||_1^2 for every z   (..., H, Z)

    chunk  table entries a seed that are held at once; it does not depend on the number of seeds,
           so that a batch of seeds adds up in the order of a single one
    """
    n_steps, n_pairs = true.features.shape[-3:-1]
    at_once = max(1, chunk // (n_steps * true.n_states))
    parts = []
    for first in range(0, n_pairs, at_once):
        pairs = slice(first, first + at_once)
        gap = _some_rows(true, pairs) - _some_rows(learnt, pairs)  # (..., H, Z', S)
        parts.append(np.abs(gap, out=gap).sum(-1) ** 2)
    return np.concatenate(parts, axis=-1)


def model_error(true: Kernel, learnt: Kernel, weights: Array, chunk: int = 1 << 18) -> Array:
    """sum_z w_h(z) ||P_h(.|z) - P^_h(.|z)||_1^2: zeta with weights rho~, xi with rho-breve.

    weights  (..., H, Z); returns (..., H)
    """
    return np.asarray((weights * squared_distance(true, learnt, chunk)).sum(-1))


def optimal_value(mdp: TabularMDP) -> float:
    """V*, from the initial distribution."""
    _check_mdp(mdp)
    _, v = plan(mdp.kernel, mdp.rewards)
    return float(mdp.initial @ v[0])


def suboptimality(mdp: TabularMDP, policy: Array | IntArray) -> float:
    """V* - V^pi from the initial distribution; policy (H, S, A) probabilities or (H, S) actions."""
    _check_mdp(mdp)
    v = policy_value(mdp.kernel, mdp.rewards, _probabilities(mdp, policy))
    return optimal_value(mdp) - float(mdp.initial @ v[0])


class Potential(NamedTuple):
    """Both sides of the elliptical potential lemma; `spent` is at most `allowed`."""

    spent: Array
    allowed: Array


def potential(gains: Array, ridge: float) -> Potential:
    """sum_k tr(G_k inv(Sigma_{k-1})) and 2 log(det Sigma_K / det Sigma_0)  (l.1814, fact F5).

    gains  G_k     (K, ..., d, d)  positive semidefinite, trace at most 1
    ridge  lambda                  Sigma_0 = lambda I; returns two arrays (...)

    The paper asks for lambda > 0 only, but x <= 2 log(1 + x), on which the lemma rests, ends at
    x = 2.51: a single G = 1 on lambda = .1 spends 10 and is allowed 4.8. Any lambda >= .4 is safe.
    """
    if ridge <= 0:
        raise ValueError(f"ridge must be positive, got {ridge}")
    start = ridge * np.eye(gains.shape[-1])
    after = start + np.cumsum(gains, axis=0)
    before = np.concatenate([np.broadcast_to(start, gains[:1].shape), after[:-1]])
    spent = np.trace(np.linalg.solve(before, gains), axis1=-2, axis2=-1).sum(0)
    allowed = 2 * (np.linalg.slogdet(after[-1])[1] - np.linalg.slogdet(start)[1])
    return Potential(np.asarray(spent), np.asarray(allowed))


def check_tabular_env(env: object) -> None:
    """Stop at observations: there a policy is a function, and no table of states can have it."""
    if isinstance(env, ObservedEnv):
        raise ValueError(
            f"{env.name} is seen through observations, which no table holds; the gap that was"
            " measured is in result.gap and result.summary, with result = agent.learn(...)"
        )


def _some_rows(kernel: Kernel, pairs: slice) -> Array:
    """P_h(s'|z) of all steps for a range of z   (..., H, Z', S)"""
    return Kernel(kernel.features[..., pairs, :], kernel.measures).table()


def _check_mdp(mdp: TabularMDP) -> None:
    check_tabular_env(mdp)
    if not isinstance(mdp, TabularMDP):
        raise ValueError(
            f"{type(mdp).__name__} is not an MDP; a game has nash_value and exploitability"
        )


def _probabilities(mdp: TabularMDP, policy: Array | IntArray) -> Array:
    """A policy of either form as probabilities (H, S, A), checked."""
    shape = mdp.rewards.shape
    given = np.asarray(policy)
    if given.shape == shape[:2] and given.dtype.kind in "iu":
        if given.min() < 0 or given.max() >= mdp.n_actions:
            worst = given.min() if given.min() < 0 else given.max()
            raise ValueError(f"policy takes action {worst}; actions are 0..{mdp.n_actions - 1}")
        return np.asarray(np.eye(mdp.n_actions)[given])
    if given.shape != shape:
        raise ValueError(
            f"policy has shape {given.shape} of {given.dtype}; give probabilities {shape} "
            f"or integer actions {shape[:2]}"
        )
    probs = given.astype(np.float64)
    if not (probs.min() >= 0 and np.abs(probs.sum(-1) - 1).max() <= 1e-6):
        raise ValueError("policy[h,s] must be a distribution over actions; divide it by its sum")
    return probs
