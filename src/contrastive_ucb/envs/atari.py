"""Atari 100K on the Arcade Learning Environment, without wrappers in between.

| what            | here                                                                          |
|-----------------|-------------------------------------------------------------------------------|
| action          | minimal set, repeated for 4 frames, never sticky                              |
| frame           | pixel-wise maximum of the last 2 of them, ALE's grey, 84 x 84 bilinear, uint8 |
| reset           | 1 to 30 single frames without action, each number as likely                   |
| training        | a lost life terminates, the game goes on; the reward is the sign of the sum   |
| evaluation      | whole games, raw score                                                        |
| limit           | 27,000 steps a game (108,000 frames, half an hour), then truncated            |

Kaiser et al. (2020) set the benchmark, Mnih et al. (2015) the preprocessing; SPR uses the same.
"""

from __future__ import annotations

from typing import Any

import ale_py
import cv2
import numpy as np
from ale_py.roms import get_rom_path

from contrastive_ucb.envs.atari_names import letters, roms, title
from contrastive_ucb.envs.frames import Frame, Picture, Step
from contrastive_ucb.envs.snapshot import ReplayedEnv

FRAME_SKIP = 4
SCREEN = 84
MAX_NOOPS = 30
MAX_STEPS = 27_000
EMULATOR_SEED = 0  # nothing in it is random without sticky actions; fixed, to be sure of it
NO_OP = 0  # ALE's number of it, in every game


class Atari(ReplayedEnv):
    """One game, in any spelling of its name."""

    frame_shape: tuple[int, ...] = (1, SCREEN, SCREEN)
    stack = 4
    value_range = (-10.0, 10.0)  # as SPR, DER and CURL; rewards are signs in training

    def __init__(self, game: str, *, seed: int, training: bool = True, role: str = "train"):
        super().__init__(seed=seed, role=role)
        rom = roms()[letters(game)]
        self.name = title(rom)
        self.training = training
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._ale = ale_py.ALEInterface()
        self._ale.setInt("random_seed", EMULATOR_SEED)
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.loadROM(str(get_rom_path(rom)))
        self._fresh = self._ale.cloneState(include_rng=True)
        self._action_set = [action.value for action in self._ale.getMinimalActionSet()]
        self.n_actions = len(self._action_set)
        self._screens = np.empty((2, *self._ale.getScreenDims()), dtype=np.uint8)

    def render(self) -> Picture:
        return np.asarray(self._ale.getScreenRGB())

    def _begin(self, random: np.random.Generator) -> Frame:
        # In some games (Assault) reset_game() alone remembers what was played before.
        self._ale.restoreState(self._fresh)
        self._ale.reset_game()
        for _ in range(random.integers(1, MAX_NOOPS, endpoint=True)):
            self._ale.act(NO_OP)
        self._lives = self._ale.lives()
        self._ale.getScreenGrayscale(self._screens[1])
        return _shrunk(self._screens[1])

    def _advance(self, action: int) -> Step:
        raw_reward = float(self._repeat(self._action_set[action]))
        game_over, lost_life = self._ale.game_over(), self._loses_life()
        terminated = game_over or (self.training and lost_life)
        truncated = self.n_steps == MAX_STEPS and not game_over
        return Step(
            frame=_shrunk(np.maximum(*self._screens)),
            reward=float(np.sign(raw_reward)) if self.training else raw_reward,
            raw_reward=raw_reward,
            terminated=terminated,
            truncated=truncated,
            episode_over=game_over or truncated,
        )

    def _repeat(self, ale_action: int) -> int:
        """Hold the action for 4 frames and keep the last 2; after the game's end nothing moves."""
        act, screen = self._ale.act, self._ale.getScreenGrayscale
        reward = sum(act(ale_action) for _ in range(FRAME_SKIP - 1))
        screen(self._screens[0])
        reward += act(ale_action)
        screen(self._screens[1])
        return reward

    def _loses_life(self) -> bool:
        """Whether the last step cost a life.

        Qbert shows no lives for some frames before its game ends: that is one end, not two.
        """
        before, self._lives = self._lives, self._ale.lives() or self._lives
        return self._lives < before

    def _identity(self) -> dict[str, Any]:
        return super()._identity() | {"training": self.training}


def _shrunk(screen: Picture) -> Frame:
    """The screen (210, 160) as a frame (1, 84, 84)."""
    return np.asarray(cv2.resize(screen, (SCREEN, SCREEN), interpolation=cv2.INTER_LINEAR))[None]
