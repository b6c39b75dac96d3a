"""The bonus added to the reward of DQN from Stable-Baselines3 in DeepSea."""

import sys

import gymnasium
import numpy as np

import contrastive_ucb as cu

try:
    from stable_baselines3 import DQN
except ImportError:
    sys.exit("this example needs Stable-Baselines3: pip install 'contrastive-ucb[sb3]'")

SIZE = 10
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
N_CELLS = (SIZE + 1) * SIZE  # the row below the last is terminal


def one_hot(cell: np.ndarray) -> np.ndarray:
    return np.eye(N_CELLS, dtype=np.float32)[cell[0] * SIZE + cell[1]]


def score(scale: float, seed: int) -> float:
    """Return of one greedy episode, without the bonus, after training with it."""
    cells = gymnasium.spaces.Box(0.0, 1.0, (N_CELLS,))
    sea = gymnasium.wrappers.TransformObservation(cu.DeepSea(SIZE, seed), one_hot, cells)
    agent = DQN(
        "MlpPolicy",
        cu.BonusWrapper(sea, scale=scale),
        learning_rate=1e-3,
        gamma=1.0,
        train_freq=1,
        target_update_interval=100,
        exploration_fraction=0.1,
        seed=seed,
    ).learn(STEPS)
    observation, terminated, total = sea.reset()[0], False, 0.0
    while not terminated:
        action, _ = agent.predict(observation, deterministic=True)
        observation, reward, terminated, _, _ = sea.step(int(action))
        total += float(reward)
    return total


if __name__ == "__main__":
    for scale in (0.3, 0.0):
        print(f"scale {scale}: return {score(scale, seed=0):.3f} of 1 after {STEPS} steps")
