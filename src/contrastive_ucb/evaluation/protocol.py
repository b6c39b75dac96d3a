"""When and for how long the deep agents are evaluated.

| environment | evaluations                                   | episodes each |
|-------------|-----------------------------------------------|---------------|
| Atari       | 1, of the final weights (Atari 100K protocol) | 100           |
| all others  | 5, evenly spaced over the last 10% of steps   | 20            |

The score of a run is the mean over all of its evaluations. On small tasks the greedy policy often
changes from one update to the next, so a single evaluation is a noisy estimate.
"""

from __future__ import annotations

from functools import cache

from contrastive_ucb.checks import check_size
from contrastive_ucb.envs.atari_names import roms, title

ATARI_EPISODES = 100
EPISODES = 20
POINTS = 5


def evaluation_steps(steps: int, count: int) -> list[int]:
    """The steps of `count` evaluations, evenly spaced over the last 10% and ending at `steps`.

    Short runs have fewer points, since each step is listed once.
    """
    check_size("steps", steps)
    check_size("count", count)
    points = (steps - (count - at) * steps // (10 * count) for at in range(1, count + 1))
    return list(dict.fromkeys(points))


def n_evaluations(env: str) -> int:
    """How often a run in `env`, a canonical name, is evaluated if it is long enough."""
    return 1 if is_atari(env) else POINTS


def default_episodes(env: str) -> int:
    """Episodes per evaluation in `env`, a canonical name, unless the user chose another number."""
    return ATARI_EPISODES if is_atari(env) else EPISODES


def is_atari(env: str) -> bool:
    """Whether `env`, a canonical name of `envs/registry.py`, is an Atari game."""
    return env in _atari_names()


@cache
def _atari_names() -> frozenset[str]:
    return frozenset(title(rom) for rom in roms().values())
