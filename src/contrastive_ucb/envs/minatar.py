"""MinAtar (Young and Tian 2019): five Atari games on a 10 x 10 grid with one channel per object.

As the package registers `MinAtar/<Game>-v1`: minimal action set, sticky actions with probability
.1, difficulty ramping. Games may never end, so they are truncated after 5,000 steps here; Freeway
terminates by itself after 2,500.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.envs.frames import Frame, FrameEnv, Picture, Step

MAX_STEPS = 5_000
# Bounds on the discounted return: rewards are not negative, and the rules bound their frequency.
# One hit every 5 steps gives 1 / (1 - .99**5) = 20.4, one crossing of the road every 27 steps 4.2.
LARGEST_VALUE, LARGEST_OF_FREEWAY = 20.0, 5.0
CELL = 16  # pixels per cell of rendered images
CHANNELS = {"asterix": 4, "breakout": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}
MINATAR = {f"MinAtar/{game.title().replace('_', '')}-v1": game for game in CHANNELS}  # id: game


class MinAtar(FrameEnv):
    """One game, by its canonical id."""

    def __init__(self, name: str, *, seed: int, role: str = "train"):
        from minatar import Environment

        super().__init__(seed=seed, role=role)
        self.name, game = name, MINATAR[name]
        self._game = Environment(game)
        self._action_set: list[int] = self._game.minimal_action_set()
        self.n_actions = len(self._action_set)
        self.frame_shape = (CHANNELS[game], 10, 10)
        self.value_range = (0.0, LARGEST_OF_FREEWAY if game == "freeway" else LARGEST_VALUE)

    def render(self) -> Picture:
        from matplotlib import colormaps

        top = (self.frame * np.arange(1, len(self.frame) + 1)[:, None, None]).max(0)  # (H, W)
        colors = colormaps["cubehelix"](top / (len(self.frame) + 1))[..., :3]
        return np.asarray(255 * colors, dtype=np.uint8).repeat(CELL, 0).repeat(CELL, 1)

    def _begin(self, random: np.random.Generator) -> Frame:
        self._game.seed(int(random.integers(2**32)))
        self._game.reset()
        self._game.last_action = 0  # otherwise an action of the last episode could repeat
        return self._grid()

    def _advance(self, action: int) -> Step:
        paid, terminated = self._game.act(self._action_set[action])
        reward = float(paid)
        truncated = self.n_steps == MAX_STEPS and not terminated
        over = bool(terminated or truncated)
        return Step(self._grid(), reward, reward, bool(terminated), bool(truncated), over)

    def _grid(self) -> Frame:
        """The channels (C, 10, 10), 0 or 1."""
        return np.ascontiguousarray(self._game.state().transpose(2, 0, 1), dtype=np.uint8)


def minatar_name(name: str) -> str | None:
    """The canonical id of any spelling of a game; None if there is no such game."""
    key = name.lower().replace("_", "").removesuffix("-v1")
    return next((known for known in MINATAR if known.lower().removesuffix("-v1") == key), None)
