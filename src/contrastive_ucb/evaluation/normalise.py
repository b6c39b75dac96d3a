"""Game scores on the scale of the paper's tables: random play is 0, a human player 1 (l.460).

Only the 26 games of Atari 100K have published scores of both; others have no such scale.
"""

from __future__ import annotations

from difflib import get_close_matches

from numpy.typing import ArrayLike

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari_names import ATARI_100K, name_key
from contrastive_ucb.stats.aggregate import human_normalised
from contrastive_ucb.stats.published import atari100k

GAMES = {name_key(game): game for game in ATARI_100K}


def game_of(name: str) -> str | None:
    """The game of Atari 100K that `name` spells ("ALE/Pong-v5", "road_runner"); None: no such."""
    return GAMES.get(name_key(name))


def normalise(name: str, score: ArrayLike) -> Array:
    """Raw scores of a game, in any spelling, as human-normalised ones of the same shape."""
    game = game_of(name)
    if game is None:
        near = get_close_matches(name_key(name), GAMES, n=1)
        hint = f"did you mean {GAMES[near[0]]!r}?" if near else "keep its raw scores"
        raise UserError(f"{name!r} is none of the 26 games of Atari 100K; {hint}")
    table = atari100k()
    at = table.games.index(game)
    return human_normalised(score, table.random[at], table.human[at])
