"""Time of the gradients of several seeds, batched by torch.func and one after another.

    .venv/bin/python benchmarks/seeds_together.py

Gradients of the losses of SPR on MinAtar (batch 32, K = 5) for 5 seeds, on one thread: one seed
after another, and all in one call of `vmap(grad(...))` over stacked weights. Both use plain layers,
because the custom backward passes of the agent do not support vmap. Whole updates of the agent are
measured for comparison. The figures are written to results/deep/seeds-together.json.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from finite_results import ROOT, versions
from timing import in_turns
from torch import Tensor
from torch.func import grad, vmap

from contrastive_ucb.core.runtime import keep_freed_memory, one_thread
from contrastive_ucb.runs.training import Training

SEEDS, TURNS = 5, 15
CHANNELS, SIDE, BATCH, JUMPS, HIDDEN = 16, 8, 32, 5, 128
Weights = dict[str, Tensor]


def random_weights() -> Weights:
    """Random weights of one seed."""
    flat = CHANNELS * SIDE**2
    shapes = {
        "encoder": (CHANNELS, 4, 3, 3),
        "first": (CHANNELS, CHANNELS, 3, 3),
        "second": (CHANNELS, CHANNELS, 3, 3),
        "scale": (CHANNELS,),
        "offset": (CHANNELS,),
        "head": (HIDDEN, flat),
        "logits": (3 * 51, HIDDEN),
        "predictor": (HIDDEN, HIDDEN),
    }
    return {name: 0.05 * torch.randn(shape) for name, shape in shapes.items()}


def loss(w: Weights, now: Tensor, later: Tensor, goal: Tensor) -> Tensor:
    """Self-prediction over K steps, and the cross entropy of C51 for the first action."""

    def encoded(x: Tensor) -> Tensor:
        return rescaled(F.relu(F.conv2d(x, w["encoder"])))

    latent = encoded(now)
    targets = F.linear(encoded(later).flatten(1), w["head"]).detach().view(JUMPS, BATCH, HIDDEN)
    value = F.linear(F.relu(F.linear(latent.flatten(1), w["head"])), w["logits"])
    total = -(goal * value[:, :51].log_softmax(-1)).sum(-1).mean()
    for target in targets:
        mixed = F.relu(F.conv2d(latent, w["first"], padding=1))
        normed = F.batch_norm(mixed, None, None, w["scale"], w["offset"], training=True)
        latent = rescaled(F.relu(F.conv2d(normed, w["second"], padding=1)))
        predicted = F.linear(F.linear(latent.flatten(1), w["head"]), w["predictor"])
        total = total - F.cosine_similarity(predicted, target, dim=-1).mean()
    return total


def rescaled(x: Tensor) -> Tensor:
    low = x.flatten(1).amin(1)[:, None, None, None]
    high = x.flatten(1).amax(1)[:, None, None, None]
    return (x - low) / (high - low + 1e-5)


def agent_updates() -> Callable[[], None]:
    """One whole update of the agent per seed."""
    settings = {"first_update": 200}
    trainer = Training("MinAtar/Breakout-v1", "spr", settings, seed=0).trainer()
    for _ in trainer.run(210):
        pass

    def updates() -> None:
        for _ in range(SEEDS):
            trainer._update()

    return updates


def main(target: Path = ROOT / "results" / "deep" / "seeds-together.json") -> None:
    keep_freed_memory()
    torch.manual_seed(0)
    seeds = [random_weights() for _ in range(SEEDS)]
    now = torch.rand(SEEDS, BATCH, 4, 10, 10)
    later = torch.rand(SEEDS, JUMPS * BATCH, 4, 10, 10)
    goal = torch.rand(SEEDS, BATCH, 51).softmax(-1)
    stacked = {name: torch.stack([weights[name] for weights in seeds]) for name in seeds[0]}
    one_by_one = grad(loss)
    together = vmap(one_by_one)

    def alone() -> list[Weights]:
        return [one_by_one(w, *data) for w, *data in zip(seeds, now, later, goal, strict=True)]

    with one_thread():
        separate, batched = alone(), together(stacked, now, later, goal)
        for at, gradients in enumerate(separate):  # both compute the same gradients
            for name, gradient in gradients.items():
                torch.testing.assert_close(batched[name][at], gradient, rtol=1e-3, atol=1e-5)
        functions = [alone, lambda: together(stacked, now, later, goal), agent_updates()]
        seconds = in_turns(functions, TURNS)
    ms = [1e3 * taken / SEEDS for taken in seconds]
    summary = {
        "seeds": SEEDS,
        "ms_gradient_alone": ms[0],
        "ms_gradient_together": ms[1],
        "ms_update_of_the_learner": ms[2],
        "alone_over_together": ms[0] / ms[1],
    }
    command = "python benchmarks/seeds_together.py"
    record = {"command": command, "summary": summary, "versions": versions()}
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(summary))


if __name__ == "__main__":
    main(*(Path(word) for word in sys.argv[1:2]))
