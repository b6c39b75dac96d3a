"""Small environments for the tests of wrappers."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env[Any, Any]):
    """Visits the cells 0, 1, ..., `length`, and only the last step of an episode sees `length`.

    The action 1 stays in the cell. The reward is 10 * cell + action. Observations are of a `kind`.
    """

    def __init__(self, length: int = 3, kind: str = "discrete", truncates: bool = False):
        self.length, self.kind, self.truncates = length, kind, truncates
        self.action_space = spaces.Discrete(2)
        self.observation_space: spaces.Space[Any] = {
            "discrete": spaces.Discrete(9),
            "box": spaces.Box(0, 9, (2,), np.float32),
            "dict": spaces.Dict(
                {
                    "cell": spaces.Discrete(9),
                    "inner": spaces.Dict({"map": spaces.Box(0, 9, (2, 2), np.uint8)}),
                    "text": spaces.Text(3, charset="ab"),
                }
            ),
            "flat_dict": spaces.Dict(
                {"cell": spaces.Discrete(9), "map": spaces.Box(0, 9, (2, 2), np.uint8)}
            ),
            "tuple": spaces.Tuple((spaces.Discrete(9), spaces.Box(0, 9, (2,), np.float32))),
        }[kind]
        self.cell = self.steps = 0

    def seen(self) -> Any:
        cell = np.int64(self.cell)
        vector, grid = np.full(2, cell, np.float32), np.full((2, 2), cell, np.uint8)
        return {
            "discrete": cell,
            "box": vector,
            "dict": {"cell": cell, "inner": {"map": grid}, "text": "ab"},
            "flat_dict": {"cell": cell, "map": grid},
            "tuple": (cell, vector),
        }[self.kind]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = 10.0 * self.cell + float(action)
        self.cell += int(action == 0)
        ends = self.cell == self.length
        return self.seen(), reward, ends and not self.truncates, ends and self.truncates, {"own": 1}


class Reused(Walk):
    """Returns the same array at each step, with other entries."""

    def __init__(self) -> None:
        super().__init__(5, "box")
        self.buffer = np.zeros(2, np.float32)

    def seen(self) -> Any:
        self.buffer[:] = self.cell
        return self.buffer
