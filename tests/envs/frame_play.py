"""Play an environment with fixed actions and record a digest of the outcomes."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from contrastive_ucb.core.checkpoint import load_checkpoint
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import make_deep_env


def play(env: FrameEnv, n_steps: int, seed: int = 0) -> str:
    """A digest of every frame, reward and flag of `n_steps` steps, with resets at ends."""
    digest = hashlib.sha256()
    for action in stream(seed, "actions").integers(env.n_actions, size=n_steps):
        step = env.step(int(action))
        digest.update(step.frame.tobytes() + str((step.frame.shape, *step[1:])).encode())
        if step.terminated or step.truncated:
            digest.update(env.reset().tobytes())
    return digest.hexdigest()


def standing(env: FrameEnv) -> list[float]:
    """Episode, step, score and frame sum of the environment."""
    return [env.episode, env.n_steps, env.raw_return, float(np.sum(env.frame))]


def main(folder: str, n_steps: str) -> None:
    """Continue the environments of a checkpoint, and print their digests as JSON."""
    results = {}
    for name, state in load_checkpoint(Path(folder)).items():
        env = make_deep_env(name, seed=state["env"]["seed"], training=True)
        env.load_state_dict(state)
        results[name] = [standing(env), play(env, int(n_steps), seed=1), standing(env)]
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
