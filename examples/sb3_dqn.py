"""DQN from Stable-Baselines3 in DeepSea; bonuses of replayed transitions use the present counts."""

import sys

import gymnasium
import numpy as np

import contrastive_ucb as cu

try:
    from stable_baselines3 import DQN
except ImportError:
    sys.exit("this example needs Stable-Baselines3: pip install 'contrastive-ucb[sb3]'")

from contrastive_ucb.bonus import BonusCallback

SIZE = 10
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
N_CELLS = (SIZE + 1) * SIZE  # the row below the last is terminal


def one_hot(cell: np.ndarray) -> np.ndarray:
    return np.eye(N_CELLS, dtype=np.float32)[cell[0] * SIZE + cell[1]]


cells = gymnasium.spaces.Box(0.0, 1.0, (N_CELLS,))
for scale in (0.1, 0.0):
    sea = gymnasium.wrappers.TransformObservation(cu.DeepSea(SIZE, seed=0), one_hot, cells)
    agent = DQN("MlpPolicy", sea, 1e-3, gamma=1.0, train_freq=1, target_update_interval=100, seed=0)
    agent.learn(STEPS, callback=BonusCallback("counts", scale, normalize=False, of="pair"))
    found = sum(episode["r"] > 0.5 for episode in agent.ep_info_buffer)  # of the last 100
    print(f"scale {scale}: the treasure in {found} of {len(agent.ep_info_buffer)} episodes")
