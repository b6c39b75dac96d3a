"""Atari 100K on the Arcade Learning Environment (ALE), without wrappers.

| what            | here                                                                          |
|-----------------|-------------------------------------------------------------------------------|
| action          | minimal set, repeated for 4 frames, never sticky                              |
| frame           | pixel-wise maximum of the last 2 of them, ALE's grayscale, 84 x 84, uint8     |
| reset           | a uniformly random number of no-op frames                                     |
| training        | a lost life terminates, the game continues; the reward is the sign of the sum |
| evaluation      | whole games, raw score                                                        |
| limit           | 27,000 steps per game (108,000 frames, half an hour), then truncated          |

The benchmark is defined by Kaiser et al. (2020), the preprocessing by Mnih et al. (2015). The
published codes differ in details, the `RULES`:

| rules          | used by       | resizing | no-ops  | more                                      |
|----------------|---------------|----------|---------|-------------------------------------------|
| `standard`     | our default   | bilinear | 1 to 30 |                                           |
| `spr-release`  | SPR, SPR-UCB  | bilinear | 1 to 30 | one more no-op at every reset and after   |
|                |               |          |         | every lost life, also in evaluation       |
| `dopamine`     | DER, OTR, DrQ | area     | 0 to 29 |                                           |
| `curl-release` | CURL          | bilinear | 0 to 29 | a no-op after a lost life, in training    |

Rewards of no-ops are ignored. With `standard` rules there is no no-op after a lost life: the first
observation of a life is the last one of the previous life.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.frames import Frame, FrameEnv, Picture, Step

FRAME_SKIP = 4
SCREEN = 84
MAX_STEPS = 27_000
EMULATOR_SEED = 0  # ALE is deterministic without sticky actions; fixed as a precaution
NO_OP = 0  # in every game
# fmt: off
ATARI_100K = (
    "Alien", "Amidar", "Assault", "Asterix", "BankHeist", "BattleZone", "Boxing", "Breakout",
    "ChopperCommand", "CrazyClimber", "DemonAttack", "Freeway", "Frostbite", "Gopher", "Hero",
    "Jamesbond", "Kangaroo", "Krull", "KungFuMaster", "MsPacman", "Pong", "PrivateEye", "Qbert",
    "RoadRunner", "Seaquest", "UpNDown",
)
# fmt: on
TWO_PLAYERS_ONLY = ("combat", "joust", "maze_craze", "warlords")  # ALE exits on these


@dataclass(frozen=True)
class Rules:
    """Details in which the published codes differ.

    resize      OpenCV's interpolation, INTER_...
    noops       smallest and largest number of no-ops at the start of a game
    reset_noop  whether one more no-op precedes them
    life_noop   when a no-op follows a lost life: "never", "training" or "always"
    """

    resize: str = "LINEAR"
    noops: tuple[int, int] = (1, 30)
    reset_noop: bool = False
    life_noop: str = "never"


RULES = {
    "standard": Rules(),
    "spr-release": Rules(reset_noop=True, life_noop="always"),
    "dopamine": Rules(resize="AREA", noops=(0, 29)),
    "curl-release": Rules(noops=(0, 29), life_noop="training"),
}


class Atari(FrameEnv):
    """One game, by any spelling of its name.

    rules  one of `RULES`
    """

    frame_shape: tuple[int, ...] = (1, SCREEN, SCREEN)
    stack = 4
    value_range = (-10.0, 10.0)  # as in SPR, DER and CURL; rewards are signs in training

    def __init__(
        self,
        game: str,
        *,
        seed: int,
        training: bool = True,
        role: str = "train",
        rules: str = "standard",
    ):
        super().__init__(seed=seed, role=role)
        if rules not in RULES:
            raise UserError(f"no Atari rules are called {rules!r}; choose from {', '.join(RULES)}")
        import ale_py
        import cv2
        from ale_py.roms import get_rom_path

        self.rules_name, self.rules = rules, RULES[rules]
        interpolation = getattr(cv2, f"INTER_{self.rules.resize}")
        self._resize = partial(cv2.resize, dsize=(SCREEN, SCREEN), interpolation=interpolation)
        rom = roms()[name_key(game)]
        self.name = game_name(rom)
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
        # In some games (Assault) reset_game() alone does not reset all state.
        self._ale.restoreState(self._fresh)
        self._ale.reset_game()
        for _ in range(self.rules.reset_noop + random.integers(*self.rules.noops, endpoint=True)):
            self._ale.act(NO_OP)
        self._lives = self._ale.lives()
        self._ale.getScreenGrayscale(self._screens[1])
        return np.asarray(self._resize(self._screens[1]))[None]

    def _advance(self, action: int) -> Step:
        raw_reward = float(self._repeat(self._action_set[action]))
        # Qbert reports 0 lives for some frames before the game ends, which counts as one end.
        before, self._lives = self._lives, self._ale.lives() or self._lives
        lost_life = self._lives < before
        if lost_life:
            self._after_lost_life()
        game_over = self._ale.game_over()
        terminated = game_over or (self.training and lost_life)
        truncated = self.n_steps == MAX_STEPS and not game_over
        return Step(
            frame=np.asarray(self._resize(np.maximum(*self._screens)))[None],  # (1, 84, 84)
            reward=float(np.sign(raw_reward)) if self.training else raw_reward,
            raw_reward=raw_reward,
            terminated=terminated,
            truncated=truncated,
            episode_over=game_over or truncated,
        )

    def _repeat(self, ale_action: int) -> int:
        """Repeat the action for 4 frames, store the last 2 screens, and return the reward."""
        act, screen = self._ale.act, self._ale.getScreenGrayscale
        reward = sum(act(ale_action) for _ in range(FRAME_SKIP - 1))
        screen(self._screens[0])
        reward += act(ale_action)
        screen(self._screens[1])
        return reward

    def _after_lost_life(self) -> None:
        """Play the no-op of some rules; in training, its screen alone is the frame.

        The frame is the last one of the old life, which is not used after a termination, and the
        first one of the new life.
        """
        if self.rules.life_noop == "always" or (self.training and self.rules.life_noop != "never"):
            self._ale.act(NO_OP)
            self._ale.getScreenGrayscale(self._screens[1])
            self._lives = self._ale.lives() or self._lives
            if self.training:
                self._screens[0] = 0

    def _identity(self) -> dict[str, Any]:
        return super()._identity() | {"training": self.training, "rules": self.rules_name}


# --- Names of games --------------------------------------------------------------------------


def atari_name(name: str) -> str | None:
    """The canonical name of any spelling of a game; None if there is no such game."""
    rom = roms().get(name_key(name))
    return None if rom is None else game_name(rom)


def name_key(name: str) -> str:
    """Key shared by all spellings: "ALE/RoadRunner-v5", "road_runner" -> "roadrunner"."""
    name = re.sub(r"((NoFrameskip|Deterministic)?-v\d+)?$", "", name.removeprefix("ALE/"))
    return re.sub("[^a-z0-9]", "", name.lower())


def game_name(rom: str) -> str:
    """Canonical name of a ROM: "road_runner" -> "RoadRunner"."""
    return rom.title().replace("_", "")


@cache
def roms() -> dict[str, str]:
    """Key -> ROM of all single-player games; without ale-py those of Atari 100K."""
    try:
        from ale_py.roms import get_all_rom_ids
    except ImportError:
        ids = [re.sub(r"(?<=.)([A-Z])", r"_\1", game).lower() for game in ATARI_100K]
    else:
        ids = [rom for rom in get_all_rom_ids() if rom not in TWO_PLAYERS_ONLY]
    return {name_key(rom): rom for rom in ids}
