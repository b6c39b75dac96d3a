"""A pair of policies, one a player, with the round it comes from and what vouches for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.config import GameConfig, check_tabular
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.agents.finite.neural_parts import check_table
from contrastive_ucb.agents.finite.presets import game_preset
from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.envs.batch import draw
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularGame
from contrastive_ucb.planning.markov_game import Bounds, independent, marginals, plan_bounds
from contrastive_ucb.planning.matrix_game import (
    CCE,
    STAGES,
    deviation_gain,
    solve_cce,
    solve_nash,
)


@dataclass(frozen=True)
class Profile:
    """The policies of both players, one pair a seed.

    row          pi            (B, H, S, A1)
    column       nu            (B, H, S, A2)
    certificate  V_up - V_low  (B,)  at the first state: how exploitable the pair may be
    number       k             (B,)  the round that planned it, 0 before the first
    """

    row: Array
    column: Array
    certificate: Array
    number: IntArray

    @staticmethod
    def uniform(shape: tuple[int, ...], n_actions: tuple[int, int]) -> Profile:
        """Where all seeds start; shape is (B, H, S)."""
        row, column = (np.full((*shape, count), 1 / count) for count in n_actions)
        return Profile(row, column, np.full(shape[0], np.inf), np.zeros(shape[0], dtype=np.int64))

    def updated(self, seeds: BoolArray, other: Profile) -> Profile:
        """The pairs of `other` where `seeds` (B,) is true, and these elsewhere.

        A new one: whoever kept the old arrays keeps what they were.
        """
        wide = seeds[:, None, None, None]
        return Profile(
            np.where(wide, other.row, self.row),
            np.where(wide, other.column, self.column),
            np.where(seeds, other.certificate, self.certificate),
            np.where(seeds, other.number, self.number),
        )

    def state_of(self, seed: int) -> dict[str, Any]:
        at = slice(seed, seed + 1)
        return {
            "row": self.row[at],
            "column": self.column[at],
            "certificate": self.certificate[at],
            "number": self.number[at],
        }

    @staticmethod
    def of_states(states: list[dict[str, Any]]) -> Profile:
        names = ("row", "column", "certificate", "number")
        return Profile(*(np.concatenate([state[name] for state in states]) for name in names))


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
