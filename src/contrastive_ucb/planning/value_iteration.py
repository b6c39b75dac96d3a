"""Backward planning with a factored kernel (Algorithm 1, l.11-13), batched over leading axes.

| paper    | here      | shape             |
|----------|-----------|-------------------|
| Q_h, V_h | q, v      | (..., H, S[, A])  |
| pi_h     | policy    | (..., H, S, A)    |
| d_h^pi   | occupancy | (..., H, S)       |
| d~_h     | rolled_in | (..., H, Z)       |

The leading axes are seeds; they broadcast, so one kernel can be used with many policies. The Z x S
table of the kernel is not computed.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.kernel import Kernel


def plan(kernel: Kernel, rewards: Array, ceiling: Array | None = None) -> tuple[Array, Array]:
    """Optimal values: Q_h = r_h + P_h V_{h+1}, V_h = max_a Q_h.

    rewards  (..., H, S, A)  including the bonus, if any
    ceiling  (H,)            Q_h is clipped to [0, ceiling_h]; None: not clipped
    returns  q (..., H, S, A), v (..., H, S)
    """
    q = _empty_like(kernel, rewards)
    v = np.empty(q.shape[:-1])
    later = np.zeros(v.shape[:-2] + v.shape[-1:])  # V_{H+1} = 0
    for h in reversed(range(q.shape[-3])):
        now = _backup(kernel, h, rewards, later)
        q[..., h, :, :] = now if ceiling is None else np.clip(now, 0.0, ceiling[h])
        later = v[..., h, :] = q[..., h, :, :].max(-1)
    return q, v


def greedy(q: Array) -> Array:
    """The deterministic policy (..., H, S, A) of the first action with the largest Q."""
    return np.asarray(np.eye(q.shape[-1])[q.argmax(-1)])


def policy_value(kernel: Kernel, rewards: Array, policy: Array) -> Array:
    """V_h^pi(s), the expected return from step h.  rewards, policy (..., H, S, A) -> (..., H, S)"""
    v = _empty_like(kernel, rewards, policy)[..., 0]
    later = np.zeros(v.shape[:-2] + v.shape[-1:])
    for h in reversed(range(v.shape[-2])):
        q = _backup(kernel, h, rewards, later)
        later = v[..., h, :] = (policy[..., h, :, :] * q).sum(-1)
    return v


def occupancy(kernel: Kernel, policy: Array, initial: Array) -> Array:
    """d_h^pi(s), the distribution of the state at step h.

    policy   (..., H, S, A)
    initial  (..., S)        distribution of the initial state; returns (..., H, S)
    """
    d = _empty_like(kernel, policy, initial[..., None, :, None])[..., 0]
    d[..., 0, :] = initial
    for h in range(d.shape[-2] - 1):
        mass = d[..., h, :, None] * policy[..., h, :, :]
        d[..., h + 1, :] = kernel.push(h, mass.reshape(*mass.shape[:-2], -1))
    return d


def rolled_in(occupancy: Array, n_actions: int) -> Array:
    """d~_h(s,a) = d_h(s) / A (l.176).   occupancy (..., H, S) -> (..., H, Z)"""
    return np.repeat(occupancy, n_actions, axis=-1) / n_actions


def one_step_later(kernel: Kernel, d_tilde: Array) -> Array:
    """d-breve_h(s,a) = sum_z d~_{h-1}(z) P_{h-1}(s|z) / A, for the true kernel (l.176).

    d_tilde  (..., H, Z); returns (..., H, Z), zero at the first step
    """
    n_actions = d_tilde.shape[-1] // kernel.n_states
    leading = np.broadcast_shapes(kernel.features.shape[:-3], d_tilde.shape[:-2])
    d_breve = np.zeros(leading + d_tilde.shape[-2:])
    for h in range(1, d_tilde.shape[-2]):
        arrivals = kernel.push(h - 1, d_tilde[..., h - 1, :])
        d_breve[..., h, :] = rolled_in(arrivals, n_actions)
    return d_breve


def _backup(kernel: Kernel, step: int, rewards: Array, later: Array) -> Array:
    """r_h + P_h V_{h+1}   (..., S, A)"""
    now = rewards[..., step, :, :]
    ahead = kernel.expect(step, later)
    return np.asarray(now + ahead.reshape(*ahead.shape[:-1], *now.shape[-2:]))


def _empty_like(kernel: Kernel, *arrays: Array) -> Array:
    """An empty array (..., H, S, A) with the leading axes of kernel and arrays broadcast."""
    leading = np.broadcast_shapes(kernel.features.shape[:-3], *(a.shape[:-3] for a in arrays))
    return np.empty(leading + arrays[0].shape[-3:])
