"""Environments; importing this package registers them as `contrastive_ucb/<class>-v0`."""

import gymnasium

from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.deepsea import DeepSea
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.lock import Lock, LockGame
from contrastive_ucb.envs.lowrank import LowRankGame, LowRankMDP
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.riverswim import RiverSwim
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP, load_env

__all__ = [
    "ContinuousMDP",
    "DeepSea",
    "GymObserved",
    "Kernel",
    "Lock",
    "LockGame",
    "LowRankGame",
    "LowRankMDP",
    "RichLock",
    "RichLockGame",
    "RiverSwim",
    "TabularGame",
    "TabularMDP",
    "load_env",
]

for _env in (ContinuousMDP, DeepSea, Lock, LowRankMDP, RichLock, RiverSwim, TabularMDP):
    gymnasium.register(
        id=f"contrastive_ucb/{_env.__name__}-v0", entry_point=f"{_env.__module__}:{_env.__name__}"
    )

# The environments import minigrid, an optional dependency, when they are made.
for _name, _task in (
    ("MultiRoom-N4-S5", "MiniGrid-MultiRoom-N4-S5-v1"),
    ("KeyCorridorS3R1", "MiniGrid-KeyCorridorS3R1-v0"),
):
    gymnasium.register(
        id=f"contrastive_ucb/{_name}-Distractors-v0",
        entry_point="contrastive_ucb.envs.minigrid:with_distractors",
        kwargs={"task": _task},
    )
