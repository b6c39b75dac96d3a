"""When SimPLe learns, in which pieces, and that it goes on from between any two of them."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agents.simple_play import BREAKOUT, SEA, TINY
from runs.training_runs import same

from contrastive_ucb.agents.simple.config import configure_simple
from contrastive_ucb.agents.simple.trainer import SimpleTrainer
from contrastive_ucb.core.events import Event
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.runs.training import Training


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def trainer_of(env: str = SEA, steps: int = 30, **changes: Any) -> SimpleTrainer:
    trainer = Training(env, "simple", {**TINY, **changes}, steps).trainer()
    assert isinstance(trainer, SimpleTrainer)
    return trainer


def counts_by_step(trainer: SimpleTrainer) -> dict[int, tuple[int, int]]:
    """Updates of the world model and rounds of PPO that follow each step that any follow."""
    made: dict[int, tuple[int, int]] = {}
    for _ in trainer.run(trainer.steps):
        rounds = trainer.agent.ppo.n_updates // 4  # 2 passes of 2 batches
        made[trainer.n_steps] = trainer.agent.world.n_updates, rounds
    since = {}
    before = (0, 0)
    for step, now in made.items():
        if now != before:
            since[step] = (now[0] - before[0], now[1] - before[1])
        before = now
    return since


@pytest.mark.parametrize(
    ("changes", "phases"),
    [
        ({"steps": 30}, {12: (3, 2), 24: (2, 2), 30: (1, 1)}),
        ({"steps": 50, "epochs": 2}, {12: (3, 2), 24: (2, 2)}),
        ({"steps": 7, "epochs": 2}, {7: (2, 1)}),
        ({"steps": 24, "extra_rounds": (2, 2)}, {12: (3, 2), 24: (2, 6)}),
    ],
    ids=str,
)
def test_a_phase_follows_every_epoch_and_a_short_one_the_rest(
    changes: dict[str, Any], phases: dict[int, tuple[int, int]]
) -> None:
    """12 steps per epoch; the first has 3 updates, later ones 2, and half an epoch half of it."""
    assert counts_by_step(trainer_of(**changes)) == phases


def test_an_event_follows_every_piece() -> None:
    trainer = trainer_of(steps=14)
    events = []
    positions = []
    for event in trainer.run(14):
        events.append(event)
        positions.append(trainer.position)
    assert positions == list(range(1, len(events) + 1))
    assert [event.step for event in events] == [*range(1, 12), *[12] * 6, 13, *[14] * 3]
    noted = [event.values["charts/epoch"] for event in events if "charts/epoch" in event.values]
    assert noted == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0])
    tags = {name for event in events for name in event.values}
    assert {"losses/model_frame", "losses/policy", "charts/episodic_return"} <= tags


def test_long_phases_are_noted_ten_times_a_half() -> None:
    trainer = trainer_of(steps=12, first_model_updates=35, rounds=20)
    events = [event for event in trainer.run(12) if "charts/epoch" in event.values]
    assert sum("losses/model_frame" in event.values for event in events) == 10
    assert sum("losses/policy" in event.values for event in events) == 10
    assert not trainer.lately


def test_actions_are_uniform_before_anything_was_learnt() -> None:
    trainer = trainer_of(steps=30)
    asked: list[int] = []
    real = trainer.agent.act

    def noted(*given: Any) -> int:
        asked.append(trainer.n_steps)
        return real(*given)

    trainer.agent.act = noted  # type: ignore[method-assign]
    for _ in trainer.run(30):
        pass
    assert asked == list(range(12, 30))


class Numbers(gymnasium.Env[Any, Any]):
    """Frames of numbers, 7x7x3 as MiniGrid's: `big` from its step on, 1 before. Ends after six."""

    observation_space = gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, big: int, step: int):
        self.big, self.first_big, self.steps = big, step, 0

    def reset(self, **given: Any) -> Any:
        self.steps = 0
        return self.shown(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.shown(), 30.0, self.steps == 6, False, {}

    def shown(self) -> Any:
        frame = np.zeros((7, 7, 3), np.uint8)
        frame[self.steps, 3, 1] = self.big if self.steps >= self.first_big else 1
        return frame


def trainer_of_numbers(big: int, step: int, **changes: Any) -> SimpleTrainer:
    env = GymFrames("Numbers-v0", lambda: Numbers(big, step), seed=0)
    config = configure_simple({**TINY, **changes}, env.frame_shape)
    return SimpleTrainer(env, config, seed=0, steps=14)


@pytest.mark.parametrize("step", [0, 4, 6])
def test_frames_beyond_frame_max_stop_it_at_once(step: int) -> None:
    """At the first frame, at a later one, and at the last of an episode, which is never acted on.
    The loss of such frames was 0, and none of them was learnt."""
    trainer = trainer_of_numbers(10, step)
    says = "a frame has an entry 10, but frame_max is 1; --set frame_max=10"
    with pytest.raises(ValueError, match=says):
        list(trainer.run(14))
    assert trainer.replay.history.n_transitions == step


def test_the_way_out_of_large_entries_leads_to_frames_that_are_learnt() -> None:
    trainer = trainer_of_numbers(10, 0, frame_max=10.0, first_model_updates=30, rounds=1)
    noted = [
        event.values["losses/model_frame"]
        for event in trainer.run(12)
        if event.values and "losses/model_frame" in event.values
    ]
    assert trainer.agent.world.model.kind == "softmax"
    assert 0 < noted[-1] < noted[0]


def state_of(trainer: SimpleTrainer) -> dict[str, Any]:
    return {"trainer": trainer.state_dict(), "replay": trainer.replay.state_dict()}


def loaded(state: dict[str, Any], env: str) -> SimpleTrainer:
    trainer = trainer_of(env, steps=26)
    trainer.load_state_dict(state["trainer"])
    trainer.replay.load_state_dict(state["replay"])
    return trainer


@pytest.mark.parametrize("env", [SEA, BREAKOUT])
def test_it_goes_on_from_between_any_two_pieces(env: str) -> None:
    """In the middle of an epoch, of the world model's updates, of PPO, at the end of a phase."""
    straight = trainer_of(env, steps=26)
    kept: dict[int, dict[str, Any]] = {}
    events: list[Event] = []
    for event in straight.run(26):
        events.append(event)
        if straight.position in (5, 12, 14, 16, 17, 20):
            kept[straight.position] = state_of(straight)
    whole = state_of(straight)
    for position, state in kept.items():
        other = loaded(state, env)
        assert other.position == position
        rest = list(other.run(26))
        assert rest == events[position:]
        same(state_of(other), whole)


def test_what_was_begun_is_finished_even_if_no_step_is_asked_for() -> None:
    trainer = trainer_of(steps=12)
    events = trainer.run(12)
    while trainer.position < 13:
        next(events)
    assert list(trainer.run(12))
    assert not any(trainer.left.values())
    assert not list(trainer.run(12))


def test_a_run_too_short_to_learn_from_is_no_error() -> None:
    trainer = trainer_of(BREAKOUT, steps=2, unroll=6)
    assert len(list(trainer.run(2))) == 2
    assert trainer.epoch == 0
