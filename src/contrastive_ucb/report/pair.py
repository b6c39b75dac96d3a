"""What a finished run of a game has learnt, next to the equilibrium of that game."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.tabular import TabularGame
from contrastive_ucb.evaluation.exact import exploitability, game_value, nash
from contrastive_ucb.experiments.environments import make_env
from contrastive_ucb.report.read import RunRecord


@dataclass(frozen=True)
class Pair:
    """A pair of policies: how it opens the game, and what the whole of it is worth.

    row             (A1,)  pi_1(a | s_1), s_1 the likeliest first state
    column          (A2,)  nu_1(b | s_1)
    value                  of the whole pair, from the initial distribution
    exploitability         its duality gap
    """

    row: Array
    column: Array
    value: float
    exploitability: float

    @property
    def joint(self) -> Array:
        """The probability of each joint action, (A1, A2): the players draw independently."""
        return np.outer(self.row, self.column)


def learnt_and_exact(run: RunRecord) -> tuple[Pair, Pair]:
    """The pair that the run recommends, and a Nash equilibrium of its game."""
    game = _game(run)
    exact = nash(game)
    return _pair(game, *_learnt(run)), _pair(game, exact.row, exact.column)


def _game(run: RunRecord) -> TabularGame:
    way_out = "write new runs elsewhere with --out"
    try:
        settings = dict(run.spec.config["env"])
        env_seed = run.spec.config["env_seed"]
        game = make_env(settings.pop("name"), settings, run.seed if env_seed is None else env_seed)
    except (KeyError, TypeError, ValueError) as error:
        spec = run.path / "spec.json"
        raise UserError(f"{spec} describes no game ({error}); {way_out}") from error
    if not isinstance(game, TabularGame):
        raise UserError(f"{run.path / 'spec.json'} describes no game but an MDP; {way_out}")
    return game


def _learnt(run: RunRecord) -> tuple[Array, Array]:
    """The policies (H, S, A1) and (H, S, A2) of the round with the best certificate."""
    way_out = f"remove {run.path / 'DONE'} and run again"
    newest = latest_checkpoint(run.path / "checkpoints")
    if newest is None:
        raise UserError(f"{run.path} has no checkpoint to take the policies from; {way_out}")
    try:
        best = load_checkpoint(newest)["session"]["agent"]["best"]
        return best["row"][0], best["column"][0]
    except KeyError as error:
        raise UserError(f"{newest} holds no policies ({error} is missing); {way_out}") from error


def _pair(game: TabularGame, row: Array, column: Array) -> Pair:
    state = int(game.initial.argmax())
    value, gap = game_value(game, row, column), exploitability(game, row, column)
    return Pair(row[0, state], column[0, state], value, gap)
