"""Backward planning in zero-sum Markov games (Algorithm 2, l.11-16), batched over leading axes.

| paper                      | here                | shape                  | line   |
|----------------------------|---------------------|------------------------|--------|
| Q-upper, Q-lower           | `upper`, `lower`    | (..., S, A1, A2)       | 11, 12 |
| sigma_h                    | `joint`             | (..., H, S, A1, A2)    | 15     |
| V-upper, V-lower           | `v_upper`, `v_lower`| (..., H, S)            | 13, 14 |
| V^{br(nu),nu}, V^{pi,br(pi)}| `reply_values`     | (..., H, S)            |        |

The row player maximizes and the column player minimizes. Line 13 of the paper uses sigma_h, which
is computed in line 15; here the equilibrium is computed first (erratum E8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.batch import SeedState
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.planning.matrix_game import solve_nash

Actions = tuple[int, int]  # A1, A2
Equilibrium = Callable[[int, Array, Array], Array]  # step h, Q-upper, Q-lower -> sigma_h


@dataclass
class Bounds(SeedState):
    """Upper and lower values with their common joint policy.

    joint             sigma             (..., H, S, A1, A2)
    v_upper, v_lower  V-upper, V-lower  (..., H, S)
    """

    saved = ("joint", "v_upper", "v_lower")

    joint: Array
    v_upper: Array
    v_lower: Array


def plan_bounds(
    kernel: Kernel,
    rewards: Array,
    bonus: Array,
    n_actions: Actions,
    equilibrium: Equilibrium,
    ceiling: Array | None = None,
) -> Bounds:
    """Q-upper and Q-lower = r_h +- beta_h + P_h V_{h+1}, sigma_h, then V = <sigma_h, Q>.

    rewards, bonus  (..., H, S, A)  with the joint action as one number
    equilibrium                     function (h, Q-upper, Q-lower) -> sigma_h
    ceiling         (H,)            both Q_h are clipped to [-ceiling_h, ceiling_h]; None: no limit
    """
    later = np.zeros((2, *rewards.shape[:-3], rewards.shape[-2]))  # V_{H+1} = 0
    joint, values = [], []
    for h in reversed(range(rewards.shape[-3])):
        bounds = []
        for sign, v_next in zip((1, -1), later, strict=True):
            shifted = rewards[..., h, :, :] + sign * bonus[..., h, :, :]  # lines 11, 12
            q = _backup(kernel, h, shifted, v_next, n_actions)
            bounds.append(q if ceiling is None else q.clip(-ceiling[h], ceiling[h]))
        sigma = equilibrium(h, *bounds)  # line 15, before 13 and 14 (E8)
        later = np.stack([(sigma * q).sum((-2, -1)) for q in bounds])  # lines 13, 14
        joint.append(sigma)
        values.append(later)
    return Bounds(np.stack(joint[::-1], axis=-4), *np.stack(values[::-1], axis=-2))


def plan_nash(kernel: Kernel, rewards: Array, n_actions: Actions) -> tuple[Array, Array, Array]:
    """A Nash equilibrium by backward induction: V (..., H, S), pi (..., H, S, A1), nu (.., A2).

    rewards  (..., H, S, A)  with the joint action as one number
    """
    v: Array = np.empty(rewards.shape[:-1])
    row, column = (np.empty((*v.shape, count)) for count in n_actions)
    later = np.zeros(v.shape[:-2] + v.shape[-1:])
    for h in reversed(range(v.shape[-2])):
        nash = solve_nash(_backup(kernel, h, rewards[..., h, :, :], later, n_actions))
        row[..., h, :, :], column[..., h, :, :] = nash.row, nash.column
        later = v[..., h, :] = nash.value
    return v, row, column


def reply_values(
    kernel: Kernel, rewards: Array, policy: Array, fixed: Literal["row", "column"]
) -> Array:
    """The value of a best response to the `policy` of the fixed player.

    rewards  (..., H, S, A)   with the joint action as one number
    policy   (..., H, S, A1) if the row player is fixed, (..., H, S, A2) if the column player is
    returns  (..., H, S)      V^{pi,br(pi)}, or V^{br(nu),nu}
    """
    n_fixed = policy.shape[-1]
    n_other = rewards.shape[-1] // n_fixed
    n_actions = (n_fixed, n_other) if fixed == "row" else (n_other, n_fixed)
    v: Array = np.empty(np.broadcast_shapes(rewards.shape[:-1], policy.shape[:-1]))
    later = np.zeros(v.shape[:-2] + v.shape[-1:])
    for h in reversed(range(v.shape[-2])):
        q = _backup(kernel, h, rewards[..., h, :, :], later, n_actions)
        now = policy[..., h, :, :]
        if fixed == "row":
            later = (now[..., :, None] * q).sum(-2).min(-1)
        else:
            later = (q * now[..., None, :]).sum(-1).max(-1)
        v[..., h, :] = later
    return v


def marginals(joint: Array) -> tuple[Array, Array]:
    """P_1 sigma and P_2 sigma, the policies of the two players (l.16).

    joint  (..., A1, A2); returns (..., A1), (..., A2)
    """
    return np.asarray(joint.sum(-1)), np.asarray(joint.sum(-2))


def independent(row: Array, column: Array) -> Array:
    """The joint policy of independent players.   (..., A1), (..., A2) -> (..., A1, A2)"""
    return np.asarray(row[..., :, None] * column[..., None, :])


def _backup(kernel: Kernel, step: int, rewards: Array, later: Array, n_actions: Actions) -> Array:
    """r_h + P_h V_{h+1} with one axis per player.   rewards (..., S, A) -> (..., S, A1, A2)"""
    q = rewards + kernel.expect(step, later).reshape(rewards.shape)
    return np.asarray(q.reshape(*q.shape[:-1], *n_actions))
