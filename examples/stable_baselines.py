"""The bonus in the reward of somebody else's agent: DQN of Stable-Baselines3 on the deep sea."""

import sys

import gymnasium
import numpy as np

import contrastive_ucb as cu

try:
    from stable_baselines3 import DQN
except ImportError:
    sys.exit("this example needs Stable-Baselines3: pip install stable-baselines3")

SIZE = 10
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
N_CELLS = (SIZE + 1) * SIZE  # the row below the last is the end


def one_hot(place: np.ndarray) -> np.ndarray:
    return np.eye(N_CELLS, dtype=np.float32)[place[0] * SIZE + place[1]]


def score(scale: float, seed: int) -> float:
    """What the DQN earns in one dive, bonus not included, after it learnt with this bonus."""
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
    place, terminated, earned = sea.reset()[0], False, 0.0
    while not terminated:
        action, _ = agent.predict(place, deterministic=True)
        place, reward, terminated, _, _ = sea.step(int(action))
        earned += float(reward)
    return earned


if __name__ == "__main__":
    for scale in (0.3, 0.0):
        print(f"scale {scale}: after {STEPS} steps DQN earns {score(scale, seed=0):.3f} of 1")
