"""Accuracy of world models: baselines against loops, and a trained model against baselines."""

import json
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agents.simple_play import learner

from benchmarks.world_model_accuracy import model_accuracy
from contrastive_ucb.data.history import read_windows
from contrastive_ucb.planning.categorical import cross_entropy
from contrastive_ucb.representation.world_model import Outcome

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_baselines_against_loops() -> None:
    agent, known = learner(steps=120)
    _, held_out = learner(steps=90)
    held_out.history.field["reward"][::7] = 2.0  # random play earns few rewards
    got = model_accuracy(agent.world, known, held_out, rng())
    steps = read_windows(held_out.history, held_out.drawable(), 1)
    before = read_windows(known.history, known.drawable(), 1)
    assert got.steps == len(steps.actions)
    mean = float(before.rewards.mean())
    copied = constant = last = 0.0
    n_shown = 0
    for row, time in enumerate(held_out.drawable()):
        reward = float(steps.rewards[row, 0])
        constant += (reward - mean) ** 2
        is_first = held_out.history.at("start", np.array([time]))[0] == time
        previous = 0.0 if is_first else float(held_out.history.field["reward"][time - 1])
        last += (reward - previous) ** 2
        if steps.shown[row, 0]:
            n_shown += 1
            copied += float((steps.frames[row, -1] != steps.frames[row, -2]).sum())
    assert got.reward_error_constant == pytest.approx(constant / got.steps)
    assert got.reward_error_copy == pytest.approx(last / got.steps)
    assert got.frame_error_copy == pytest.approx(copied / n_shown)
    usual = np.mean(steps.rewards**2)  # the most frequent reward is 0
    assert got.reward_error_usual == pytest.approx(usual)
    assert n_shown < got.steps


def test_errors_of_the_model_against_its_losses() -> None:
    """With zero weights of the bits, predictions of end and reward do not depend on them."""
    agent, known = learner(steps=60)
    model = agent.world.model
    with torch.no_grad():
        model.tell.weight.zero_()
    got = model_accuracy(agent.world, known, known, rng())
    windows = read_windows(known.history, known.drawable(), 1)
    losses = agent.world.losses(windows, rng(3), own=0.0)
    assert got.end_nats == pytest.approx(losses["end"].item(), rel=1e-4)
    assert got.reward_nats == pytest.approx(losses["reward"].item(), rel=1e-4)
    shown = replace(windows, alive=windows.shown)  # frames after the end are not included
    of_frames = agent.world.losses(shown, rng(3), own=0.0)
    assert of_frames["bits"].item() > 1e-3
    total = of_frames["frame"] + of_frames["bits"]
    assert got.frame_nats == pytest.approx(total.item(), rel=1e-4)
    frames = torch.from_numpy(windows.frames)
    outcome = model.predict(
        frames[:, :-1].flatten(1, 2),
        torch.from_numpy(windows.actions[:, 0]),
        torch.zeros(len(frames), 1),
    )
    expected = outcome.reward.softmax(-1) @ agent.world.support
    rewards = torch.from_numpy(windows.rewards[:, 0]).float()
    assert got.reward_error == pytest.approx((expected - rewards).square().mean().item(), rel=1e-4)
    mass = agent.world.reward_mass(rewards)
    nats = cross_entropy(mass, outcome.reward.log_softmax(-1)).mean().item()
    assert got.reward_nats == pytest.approx(nats, rel=1e-4)


def test_predictions_are_means_over_draws_of_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a single draw of the bits is certain of an end, and wrong half of the time."""
    agent, known = learner(steps=60)
    predict, logits = agent.world.model.predict, cycle([50.0, -50.0])

    def alternating(*arguments: Any) -> Outcome:
        outcome, logit = predict(*arguments), next(logits)
        reward = torch.full_like(outcome.reward, -50)
        reward[:, 0 if logit < 0 else 1] = 50  # predicts 0 or 1 with certainty
        return Outcome(outcome.frame, reward, torch.full_like(outcome.end, logit))

    monkeypatch.setattr(agent.world.model, "predict", alternating)
    got = model_accuracy(agent.world, known, known, rng())
    assert got.end_nats == pytest.approx(np.log(2), rel=1e-5)
    assert got.reward_nats == pytest.approx(np.log(2), rel=1e-5)
    assert got.reward_error == pytest.approx(0.25, rel=1e-4)


# Committed results


def test_committed_results_are_consistent() -> None:
    path = ROOT / "results" / "minatar" / "world-model.json"
    games = json.loads(path.read_text(encoding="utf-8"))["games"]
    for game in games.values():
        assert [run["seed"] for run in game["runs"]] == list(range(3))
        for name, mean in game["mean"].items():
            assert mean == pytest.approx(np.mean([run[name] for run in game["runs"]]))
        for run in game["runs"]:
            assert run["frame_error"] < 0.8 * run["frame_error_copy"]
            assert run["reward_error"] < 0.6 * run["reward_error_copy"]
