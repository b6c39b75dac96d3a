"""PPO from Stable-Baselines3 with the contrastive bonus in a MiniGrid maze with sparse reward."""

import sys

try:
    from minigrid.wrappers import ImgObsWrapper
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
except ImportError:
    sys.exit("this example needs more packages: pip install 'contrastive-ucb[sb3,minigrid]'")

from contrastive_ucb.bonus import OBSERVATION_FEATURES, BonusVecEnv

MAZE = "MiniGrid-MultiRoom-N4-S5-v1"
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000


def make(n_envs: int, seed: int):
    return make_vec_env(MAZE, n_envs, seed=seed, wrapper_class=ImgObsWrapper)


agent = PPO(
    "MlpPolicy",
    BonusVecEnv(make(16, seed=0), "contrastive", scale=0.1, seed=0),
    n_steps=128,
    batch_size=256,
    n_epochs=4,
    ent_coef=0.01,
    policy_kwargs=OBSERVATION_FEATURES,
    seed=0,
    device="cpu",
).learn(STEPS)
score, _ = evaluate_policy(agent, make(1, seed=1000), min(20, STEPS // 200), deterministic=False)
print(f"{MAZE}: mean return {score:.2f} without the bonus, after {STEPS} steps")
