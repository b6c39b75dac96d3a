"""Accuracy of SimPLe's small world model on MinAtar, written to results/minatar/world-model.json.

    .venv/bin/python benchmarks/world_model.py [--steps 20000] [--updates 1500] [--seeds 3]

For each game and seed: collect real steps, train the world model on them, and evaluate it with
`world_model_accuracy.py` on games with another seed, which it has not seen. A quarter of
the actions is uniform and the others repeat one action, which changes about every 50 steps: uniform
actions alone never cross the road in Freeway, and then there is no reward to predict.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from finite_results import ROOT, versions
from world_model_accuracy import model_accuracy

from contrastive_ucb.agents.simple.agent import Simple
from contrastive_ucb.agents.simple.config import configure_simple
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import keep_freed_memory
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import make_deep_env

GAMES = ("Breakout", "Freeway", "Seaquest")
HELD_OUT = 1000  # added to the seed of the evaluation
CHANGE, REPEAT = 1 / 50, 0.75  # probabilities per step: a new action to repeat, and repeating it
TARGET = ROOT / "results" / "minatar" / "world-model.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000, help="real steps of the training data")
    parser.add_argument("--updates", type=int, default=1500, help="updates of the world model")
    parser.add_argument("--unseen", type=int, default=10_000, help="steps of the evaluation")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    sizes = {name: getattr(options, name) for name in ("steps", "updates", "unseen")}
    games: dict[str, Any] = {}
    for game in GAMES:
        runs = []
        for seed in range(options.seeds):
            runs.append({"seed": seed, **measure(f"MinAtar/{game}-v1", seed, **sizes)})
            print(game, json.dumps(runs[-1]), flush=True)
        means = {
            key: float(np.mean([run[key] for run in runs])) for key in runs[0] if key != "seed"
        }
        games[game.lower()] = {"mean": means, "runs": runs}
    record = {"command": "benchmarks/world_model.py", **sizes, "games": games}
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps({**record, "versions": versions()}, indent=1) + "\n")


def measure(name: str, seed: int, steps: int, updates: int, unseen: int) -> dict[str, float]:
    """Accuracy on `unseen` steps of a model trained on `steps` steps."""
    env = make_deep_env(name, seed=seed, training=True)
    config = configure_simple({}, env.frame_shape)
    agent = Simple(config, env.frame_shape, env.stack, env.n_actions, env.value_range, seed)
    train = played(env, agent.new_replay(), steps, seed)
    other = make_deep_env(name, seed=seed + HELD_OUT, training=True)
    held_out = played(other, agent.new_replay(), unseen, seed + HELD_OUT)
    agent.world.measure(train)
    for _ in range(updates):
        agent.update_model(train)
    accuracy = asdict(model_accuracy(agent.world, train, held_out, stream(seed, "foresight")))
    rewarded = held_out.history.at("reward", held_out.drawable()) != 0
    return {**accuracy, "rewarded_steps": int(rewarded.sum())}


def played(env: FrameEnv, replay: Replay, steps: int, seed: int) -> Replay:
    """The replay memory after `steps` steps."""
    draws = stream(seed, "policy")
    replay.begin(env.reset())
    repeated = int(draws.integers(env.n_actions))
    for _ in range(steps):
        if draws.random() < CHANGE:
            repeated = int(draws.integers(env.n_actions))
        uniform = int(draws.integers(env.n_actions))
        action = repeated if draws.random() < REPEAT else uniform
        step = env.step(action)
        replay.add(action, step.reward, step.frame, step.terminated, step.truncated)
        if step.terminated or step.truncated:
            replay.begin(env.reset())
    return replay


if __name__ == "__main__":
    main()
