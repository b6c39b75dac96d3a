"""MiniGrid (Chevalier-Boisvert et al. 2023) with symbolic views, and tasks with distractors.

An observation is the agent's view of 7 x 7 cells with object, color and state of each, without
direction and mission. The view turns with the agent, and most missions are always the same or
concern the only object of their kind. Tasks whose mission names one of several goals, such as Fetch
and GoToDoor, cannot be solved reliably from the view.

`Distractors` shows every empty floor cell as a floor tile of a random color, which is drawn anew
at every step. The tiles have no effect. Such noise keeps bonuses high that measure how often an
observation was seen or how well it is predicted (the noisy TV of Burda et al. 2019).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from contrastive_ucb.core.errors import UserError

try:
    import minigrid  # noqa: F401  (registers its environments)
    from minigrid import wrappers
    from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
except ImportError as error:
    raise UserError("this needs minigrid: pip install 'contrastive-ucb[minigrid]'") from error

ImgObsWrapper: Any = wrappers.ImgObsWrapper  # it has no types
EMPTY, FLOOR = OBJECT_TO_IDX["empty"], OBJECT_TO_IDX["floor"]


class Distractors(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows every empty floor cell in the view as a floor tile of an independent random color.

    The colors are drawn from the random generator of the environment, so an episode is determined
    by its seed and its actions.

    Args:
        env: An environment of MiniGrid with its dictionary observations.
    """

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        image = observation["image"].copy()
        empty = image[..., 0] == EMPTY
        colors = self.unwrapped.np_random.integers(0, len(COLOR_TO_IDX), int(empty.sum()))
        image[empty] = np.stack([np.full_like(colors, FLOOR), colors, 0 * colors], 1)
        return {**observation, "image": image}


def symbolic(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """An environment of MiniGrid whose observation is the symbolic view (7, 7, 3)."""
    options = {"render_mode": "rgb_array", "disable_env_checker": True, **options}
    env: gymnasium.Env[Any, Any] = gymnasium.make(name, **options)
    if isinstance(env.observation_space, gymnasium.spaces.Dict):
        env = ImgObsWrapper(env)
    return env


def with_distractors(task: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """An environment of MiniGrid with distractors, as the registered ids make it."""
    env = Distractors(gymnasium.make(task, disable_env_checker=True, **options))
    view: gymnasium.Env[Any, Any] = ImgObsWrapper(env)
    return view
