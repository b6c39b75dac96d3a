"""Algorithm 2, Contrastive ULCB (l.230-260): lines 1 to 10 are in `learner`, 11 to 16 here.

| paper              | here                        | shape              | line   |
|--------------------|-----------------------------|--------------------|--------|
| V-upper, V-lower   | `bounds`                    | (B, H, S)          | 11-14  |
| sigma^k            | `bounds.joint`              | (B, H, S, A1, A2)  | 15     |
| pi^k, nu^k         | `last`                      | (B, H, S, A1 / A2) | 16     |
| k_0                | `best`                      |                    | E8     |

The paper's k_0 is the round with the smallest true duality gap, which nobody can compute without
the game. `best` is the round with the smallest V-upper - V-lower, and `drawn` is a round drawn
uniformly from those so far (erratum E8). The peers are configurations of this class
(`peers.GAME_PRESETS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from contrastive_ucb.agents.config import GameConfig, check_tabular
from contrastive_ucb.agents.learner import Learner
from contrastive_ucb.agents.neural_parts import check_table
from contrastive_ucb.agents.peers import game_preset
from contrastive_ucb.agents.profile import Profile
from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.envs.batch import draw
from contrastive_ucb.envs.games import TabularGame
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.planning.markov_game import Bounds, independent, marginals, plan_bounds
from contrastive_ucb.planning.matrix_game import (
    CCE,
    STAGES,
    deviation_gain,
    solve_cce,
    solve_nash,
)

Game = TabularGame | ObservedEnv


class ContrastiveULCB(Learner[GameConfig]):
    """Contrastive ULCB on a finite zero-sum game, or on several of one size; or on observations.

    env        a TabularGame (or LowRankGame, LockGame), or a list of them; or a RichLockGame
    seed       of the random streams, at least 0; a list with a list of games
    algo       "contrastive-ulcb" or a peer: rep-ulcb, omni-vi, midpoint-nash, tight-cce, no-bonus,
               uniform
    negative_distribution  P^- (S,), any distribution that touches zero nowhere; None follows `tilt`
    settings   changes to the configuration, see GameConfig: rank=5, negatives="exact", iota=.01
    """

    kind = "contrastive-ulcb"
    _streams = ("round", "act")  # the last is for `predict`
    _least = -1.0

    def __init__(
        self,
        env: Game | Sequence[Game],
        *,
        seed: int | Sequence[int] = 0,
        algo: str = "contrastive-ulcb",
        negative_distribution: Array | None = None,
        **settings: Any,
    ):
        envs, config = _games(env), game_preset(algo, **settings)
        super().__init__(envs, seed, algo, config, negative_distribution)
        if self.world.n_listed:
            check_tabular(vars(config))
        n_seeds, horizon, n_states, n_joint = self.world.shape
        rows, columns = self.world.action_shape
        self.n_actions = rows, columns
        shape = (n_seeds, horizon, n_states)
        joint = np.full((*shape, rows, columns), 1 / n_joint)  # line 1: sigma^0
        self.bounds = Bounds(joint, np.zeros(shape), np.zeros(shape))
        listed = (n_seeds, horizon, self.world.n_listed)
        self.last, self.best, self.drawn = (
            Profile.uniform(listed, self.n_actions) for _ in range(3)
        )
        self.cce_gap = np.zeros(n_seeds)  # of this round, the largest over states and steps
        self.cce_stages = np.zeros((n_seeds, len(STAGES)), dtype=np.int64)  # games solved by each

    @property
    def iota(self) -> float:
        """iota_k = c / sqrt(k), which the theorem asks for (l.287), in the next round."""
        return self._iota(self.n_rounds + 1)

    @property
    def policies(self) -> tuple[Array, Array]:
        """pi (H, S, A1) and nu (H, S, A2) of the round with the smallest certificate.

        This is what the only seed recommends; `best`, `last` and `drawn` have those of all seeds.
        """
        check_table("policies", self.world)
        self._only("agent.best.row and agent.best.column")
        return self.best.row[0], self.best.column[0]

    @property
    def certificate(self) -> float:
        """V-upper - V-lower of `policies`: it bounds what both players together can gain from
        leaving them, up to 2H iota_k and the bias of the model (l.402-414). Not so with the Nash
        equilibrium of the midpoint, which need not be a CCE."""
        self._only("agent.best.certificate")
        return float(self.best.certificate[0])

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[tuple[IntArray, IntArray], Any]:
        """An action of each player for observations, one or a row of them, as in ContrastiveUCB.

        Equilibria are mixed, so actions are drawn unless `deterministic` asks for the likeliest.
        `episode_start` is there for tools that pass it.
        """
        self._only("agent.best.row and agent.best.column")
        tables = [self.best.row[0], self.best.column[0]]
        (row, column), state = self._seen(observation, state, tables, "best")
        if deterministic:
            return (np.asarray(row.argmax(-1)), np.asarray(column.argmax(-1))), state
        uniform = self.streams["act"][0].random((2, *row.shape[:-1]))
        return (draw(row, uniform[0]), draw(column, uniform[1])), state

    @property
    def _planned(self) -> Array:
        return self.bounds.joint.reshape(self.world.shape)

    @property
    def _planned_values(self) -> list[Array]:
        return [self.bounds.v_upper, self.bounds.v_lower]

    def _kept(self, k: int) -> list[str]:
        names = ("last", "best", "drawn")
        return [name for name in names if getattr(self, name).number[0] == k]

    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """Line 15 at other states, with iota_k of the kept round k: later rounds change nothing."""
        upper, lower = (q.reshape(1, -1, *self.n_actions) for q in bounds)
        found = self._equilibrium(step, int(getattr(self, kept).number[0]), upper, lower)
        return found.joint.reshape(bounds[0].shape)

    def _plan(self, kernel: Kernel, k: int) -> None:
        self.cce_gap = np.zeros(len(self.seeds))
        bounds = plan_bounds(
            kernel,
            self._rewards(),
            self.bonus,
            self.n_actions,
            self._joint_at,
            self._ceiling(),
        )
        width = bounds.v_upper[:, 0] - bounds.v_lower[:, 0]
        certificate = (width * self.world.initial).sum(-1)
        self.bounds = bounds
        listed = bounds.joint[:, :, : self.world.n_listed]
        self.last = Profile(*marginals(listed), certificate, np.full(len(self.seeds), k))  # line 16
        better = certificate <= self.best.certificate  # ties: the later round
        self.best = self.best.updated(better, self.last)
        self.drawn = self.drawn.updated(self._uniforms("round", 1)[:, 0] * k < 1, self.last)

    def _joint_at(self, step: int, upper: Array, lower: Array) -> Array:
        """Line 15 for the states that are planned on, with its accounts.   (B, S, A1, A2)"""
        # A guess is of use where the states are those of the last round.
        guess = self.bounds.joint[:, step] if self.world.n_listed else None
        found = self._equilibrium(step, self.n_rounds + 1, upper, lower, guess)
        self.cce_gap = np.maximum(self.cce_gap, found.gap.max(-1))
        solved = (found.stage[..., None] == np.arange(len(STAGES))).sum(1)
        self.cce_stages = self.cce_stages + solved
        return found.joint

    def _iota(self, k: int) -> float:
        return self.config.iota / sqrt(k)

    def _equilibrium(
        self, step: int, k: int, upper: Array, lower: Array, guess: Array | None = None
    ) -> CCE:
        """Line 15 of round k for all seeds and states of one step.

        upper, lower, guess  (B, S, A1, A2)

        A CCE whose measured gap is above iota_k is an error. Only the Nash equilibrium of the
        midpoint is taken as it is, since it promises no CCE.
        """
        for name, q in (("upper", upper), ("lower", lower)):
            if not np.isfinite(q).all():
                raise ArithmeticError(
                    f"Q-{name} has a NaN or infinite entry at step {step} of round {k}"
                )
        kind, iota = self.config.equilibrium, self._iota(k)
        if kind == "midpoint":
            nash = solve_nash((upper + lower) / 2)
            joint = independent(nash.row, nash.column)
            gap = deviation_gain(joint, upper, lower)
            return CCE(joint, gap, np.full(gap.shape, STAGES.index("midpoint")))
        if kind == "tight":
            return solve_cce(upper, lower, iota, objective="tight")
        return solve_cce(upper, lower, iota, start=guess)

    def state_of(self, seed: int) -> dict[str, Any]:
        bounds = {
            "joint": self.bounds.joint[seed],
            "v_upper": self.bounds.v_upper[seed],
            "v_lower": self.bounds.v_lower[seed],
        }
        profiles = {name: getattr(self, name).state_of(seed) for name in ("last", "best", "drawn")}
        cce = {"cce_gap": float(self.cce_gap[seed]), "cce_stages": self.cce_stages[seed]}
        return {**super().state_of(seed), "bounds": bounds, **profiles, **cce}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        super().load_states(states)
        bounds = [state["bounds"] for state in states]
        names = ("joint", "v_upper", "v_lower")
        self.bounds = Bounds(*(np.stack([one[name] for one in bounds]) for name in names))
        self.last, self.best, self.drawn = (
            Profile.of_states([state[name] for state in states])
            for name in ("last", "best", "drawn")
        )
        self.cce_gap = np.array([state["cce_gap"] for state in states])
        self.cce_stages = np.stack([state["cce_stages"] for state in states])


def _games(env: Game | Sequence[Game]) -> list[Game]:
    """The games without the wrappers that PettingZoo puts around them."""
    given = env if isinstance(env, Sequence) else [env]
    inner = [getattr(one, "unwrapped", one) for one in given]
    for one in inner:
        if isinstance(one, ObservedEnv) and len(one.action_shape) == 2:
            continue
        if not isinstance(one, TabularGame):
            players = len(getattr(one, "possible_agents", ()))
            what = f" has {players} players and" if players not in (0, 2) else ""
            raise ValueError(
                f"{type(one).__name__}{what} is not a finite zero-sum game of two players; give"
                " its arrays to TabularGame(P, r), or an MDP to ContrastiveUCB"
            )
    return inner
