"""Exploitability and Nash values against OpenSpiel, with Markov games as extensive-form games.

Chance draws the states; the row player moves, then the column player, who does not observe that
move. Best responses of OpenSpiel depend on whole histories, those of this package on step and state
only; against Markov policies both have the same value.
"""

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import LockGame, LowRankGame, TabularGame
from contrastive_ucb.evaluation.exact import exploitability

pyspiel = pytest.importorskip("pyspiel")
from open_spiel.python import policy as open_spiel_policy  # noqa: E402
from open_spiel.python.algorithms import exploitability as open_spiel_exploitability  # noqa: E402

PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])
GAMES = [
    LowRankGame(2, (2, 2), 2, 2, seed=0),
    LowRankGame(2, (2, 3), 2, 2, seed=1),
    LowRankGame(3, (3, 2), 2, 2, seed=2),
    LockGame(2, 2, n_dead=1, seed=0),
    TabularGame(np.ones((1, 1, 2, 2, 1)), PENNIES[None, None]),
]


class Tree:
    """The game in the format of Gambit, with information sets named after step and state."""

    def __init__(self, game: TabularGame):
        self.game, self.sets = game, 0
        self.lines = ['EFG 2 R "markov" { "row" "column" } ""']
        self._chance(game.initial, 0, 0.0)
        self.tree = pyspiel.load_efg_game("\n".join(self.lines) + "\n")

    def _chance(self, probs: Array, step: int, total: float) -> None:
        states = np.flatnonzero(probs)
        outcomes = " ".join(f'"{s}" {probs[s]:.17g}' for s in states)
        self.lines.append(f'c "" {len(self.lines)} "" {{ {outcomes} }} 0')
        for state in states:
            self._play(int(state), step, total)

    def _play(self, state: int, step: int, total: float) -> None:
        game = self.game
        if step == game.horizon:
            self.lines.append(f't "" {len(self.lines)} "" {{ {total:.17g} {-total:.17g} }}')
            return
        self.sets += 1
        number, where = self.sets, f"{step},{state}"
        moves = [" ".join(f'"{move}"' for move in range(count)) for count in game.n_actions]
        self.lines.append(f'p "" 1 {number} "{where},{number}" {{ {moves[0]} }} 0')
        for a in range(game.n_actions[0]):
            self.lines.append(f'p "" 2 {number} "{where},{number}" {{ {moves[1]} }} 0')
            for b in range(game.n_actions[1]):
                reward = game.rewards[step, state, a, b]
                self._chance(game.transitions[step, state, a, b], step + 1, total + reward)

    def policy(self, row: Array, column: Array) -> open_spiel_policy.TabularPolicy:
        table = open_spiel_policy.TabularPolicy(self.tree)
        for state in table.states:
            step, place, _ = state.information_state_string().split("-")[-1].split(",")
            probs = (row, column)[state.current_player()][int(step), int(place)]
            entry = table.policy_for_key(state.information_state_string())
            entry[:] = 0
            for action, probability in zip(state.legal_actions(), probs, strict=True):
                entry[action] = probability
        return table


def policies(game: TabularGame, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    row, column = (
        rng.dirichlet(np.full(n, 0.5), (game.horizon, game.n_states)) for n in game.n_actions
    )
    return row, column


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_exploitability_equals_nash_conv(game: TabularGame) -> None:
    tree = Tree(game)
    for seed in range(3):
        pair = policies(game, seed)
        expected = open_spiel_exploitability.nash_conv(tree.tree, tree.policy(*pair))
        assert exploitability(game, *pair) == pytest.approx(expected, abs=1e-9)
