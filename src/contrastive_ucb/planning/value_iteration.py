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
    later, all_q, all_v = np.zeros(rewards.shape[-2]), [], []  # V_{H+1} = 0
    for h in reversed(range(rewards.shape[-3])):
        q = _backup(kernel, h, rewards, later)
        if ceiling is not None:
            q = np.clip(q, 0.0, ceiling[h])
        later = q.max(-1)
        all_q.append(q)
        all_v.append(later)
    return np.stack(all_q[::-1], axis=-3), np.stack(all_v[::-1], axis=-2)


def greedy(q: Array) -> Array:
    """The deterministic policy (..., A) of the first action with the largest Q (..., A)."""
    if not np.isfinite(q).all():
        raise ArithmeticError("Q-bar has a NaN or infinite entry")
    return np.asarray(np.eye(q.shape[-1])[q.argmax(-1)])


def policy_value(kernel: Kernel, rewards: Array, policy: Array) -> Array:
    """V_h^pi(s), the expected return from step h.  rewards, policy (..., H, S, A) -> (..., H, S)"""
    later, values = np.zeros(rewards.shape[-2]), []
    for h in reversed(range(rewards.shape[-3])):
        q = _backup(kernel, h, rewards, later)
        later = (policy[..., h, :, :] * q).sum(-1)
        values.append(later)
    return np.stack(values[::-1], axis=-2)


def occupancy(kernel: Kernel, policy: Array, initial: Array) -> Array:
    """d_h^pi(s), the distribution of the state at step h.

    policy   (..., H, S, A)
    initial  (..., S)        distribution of the initial state; returns (..., H, S)
    """
    d = [initial]
    for h in range(policy.shape[-3] - 1):
        mass = d[h][..., None] * policy[..., h, :, :]
        d.append(kernel.push(h, mass.reshape(*mass.shape[:-2], -1)))
    return np.stack(np.broadcast_arrays(*d), axis=-2)


def rolled_in(occupancy: Array, n_actions: int) -> Array:
    """d~_h(s,a) = d_h(s) / A (l.176).   occupancy (..., H, S) -> (..., H, Z)"""
    return np.repeat(occupancy, n_actions, axis=-1) / n_actions


def one_step_later(kernel: Kernel, d_tilde: Array) -> Array:
    """d-breve_h(s,a) = sum_z d~_{h-1}(z) P_{h-1}(s|z) / A, for the true kernel (l.176).

    d_tilde  (..., H, Z); returns (..., H, Z), zero at the first step
    """
    d_breve = [np.zeros_like(d_tilde[..., 0, :])]
    for h in range(d_tilde.shape[-2] - 1):
        arrivals = kernel.push(h, d_tilde[..., h, :])
        d_breve.append(rolled_in(arrivals, d_tilde.shape[-1] // arrivals.shape[-1]))
    return np.stack(np.broadcast_arrays(*d_breve), axis=-2)


def _backup(kernel: Kernel, step: int, rewards: Array, later: Array) -> Array:
    """r_h + P_h V_{h+1}   (..., S, A)"""
    now = rewards[..., step, :, :]
    ahead = kernel.expect(step, later)
    return np.asarray(now + ahead.reshape(*ahead.shape[:-1], *now.shape[-2:]))
