"""Wrong arguments of the Python API are errors of one line with the correct names; regressions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from cli_errors import check_error
from gymnasium import spaces

import contrastive_ucb as cu
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs import registry

LOCK = {"horizon": 2, "n_actions": 2}


class Own(gymnasium.Env[Any, Any]):
    """Samples of a space as observations; episodes of 5 steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space[Any]):
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.observation_space.seed(seed)
        self.n_steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.n_steps += 1
        return self.observation_space.sample(), float(action), self.n_steps == 5, False, {}


def table() -> cu.TabularMDP:
    return cu.TabularMDP(np.full((3, 5, 2, 5), 0.2), np.zeros((3, 5, 2)))


def finite() -> cu.ContrastiveUCB:
    return cu.ContrastiveUCB(cu.Lock(**LOCK))


def wrapped(**options: Any) -> cu.BonusWrapper:
    return cu.BonusWrapper(gymnasium.make("CartPole-v1"), **options)


def bonus(**options: Any) -> cu.EllipticalBonus:
    return cu.EllipticalBonus(dim=2, **options)


def learn(agent: Any, *given: Any, **options: Any) -> None:
    agent.learn(*given, **options)


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: learn(finite(), steps=10), r"ContrastiveUCB has no 'steps'; use learn\(rounds="),
    (lambda: learn(finite()), r"needs the number of rounds: learn\(rounds="),
    (lambda: learn(finite(), rounds=1, callback=3), "callback must be a function .* got 3"),
    (lambda: finite().save(3), "folder must be a path .*got 3"),  # type: ignore[arg-type]
    (lambda: cu.SPRUCB("DeepSea-4", n_stepp=3), "called 'n_stepp'; did you mean 'n_step'"),
    (lambda: cu.DeepAgent("DeepSea-4", devcie="cpu"), "'devcie'; did you mean 'device'"),
    (lambda: cu.SPRUCB("DeepSea-4", device="gpu"), "'gpu'; choose from auto, cpu, cuda"),
    (lambda: cu.SPRUCB("DeepSea-4", settings=3), r"settings must .*'n_step': 3.* got 3"),
    (lambda: cu.SPRUCB("DeepSea-4").predict("x"), "observation of DeepSea-4 is an array of numb"),
    (lambda: cu.SPRUCB("DeepSea-4").evaluate(1, epsilon="x"), "epsilon must be a number, got 'x'"),
    (lambda: bonus(scale="x"), "scale must be a number, got 'x'"),
    (lambda: bonus(ridge=0), "ridge must be positive, got 0"),
    (lambda: bonus(cap=None), "cap must be a number, got None"),
    (lambda: bonus(scale=float("inf")), "scale must be at least 0 and finite, got inf"),
    (lambda: bonus(scale=float("nan")), "scale must be at least 0 and finite, got nan"),
    (lambda: bonus().observe(np.ones(2)), r"got ndarray; convert them with torch.as_tensor"),
    (lambda: bonus().observe(torch.ones(2), weight="x"), "weight must be a number, got 'x'"),
    (lambda: bonus(blocks=2).observe(torch.ones(2), block=[1]), r"block is \[1\] .* torch.Tensor"),
    (lambda: bonus().load_state_dict(3), r"what state_dict\(\) returned, got 3"),
    (lambda: wrapped().load_state_dict({}), r"what state_dict\(\) returned, got {}"),
    (lambda: cu.AgentConfig(alhpa=1), "called 'alhpa'; did you mean 'alpha'"),
    (lambda: cu.GameConfig(x=1), "called 'x'; choose from alpha, "),
    (lambda: wrapped(scale="0.1"), "scale must be a number, got '0.1'"),
    (lambda: wrapped(features=3), "contrastive has no setting 'features'; "),
    (lambda: cu.BonusWrapper("CartPole-v1"), r"got 'CartPole-v1'; use gymnasium.make\(id\)"),
    (lambda: cu.Lock(seed="a"), "seed must be a whole number, got 'a'"),
    (lambda: cu.RichLock(seed=1.5), "seed must be a whole number, got 1.5"),
    (lambda: cu.ContinuousMDP(amplitude="x"), "amplitude must be a number, got 'x'"),
    (lambda: cu.GymObserved("CartPole-v1", 5, "x"), "reward_low must be a number, got 'x'"),
    (lambda: cu.TabularMDP.load(3), "path must be a path .*got 3"),
    (lambda: cu.ContrastiveUCB(table()), "'TabularMDP' declares no rank d.* pass rank=d"),
    (lambda: cu.load(3), "folder must be a path .*got 3"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message for _, message in CASES])
def test_errors_are_one_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"), [("Lok", r"'Lok'; did you mean 'Lock'\?$"), ("zzz", "'zzz'$")]
)
def test_unknown_names_of_the_package(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute {says}"):
        getattr(cu, name)


def test_settings_are_keywords() -> None:
    assert cu.SPRUCB("DeepSea-4", n_step=3).training.settings == {"n_step": 3}


def test_an_own_environment_is_loaded_in_the_process_that_saved_it(tmp_path: Path) -> None:
    """The number in the name of an instance counts the objects of a process."""
    agent = cu.SPRUCB(Own(spaces.Box(-1, 1, (3,))))
    agent.learn(steps=12, progress=False)
    agent.save(tmp_path)
    loaded = cu.load(tmp_path, env=Own(spaces.Box(-1, 1, (3,))))
    assert isinstance(loaded, cu.DeepAgent)
    for each in (agent, loaded):
        each.learn(steps=8, progress=False)
    np.testing.assert_array_equal(agent.returns, loaded.returns)

    class Other(Own):
        pass

    with pytest.raises(UserError, match=r"belongs to .*Own.*, not to .*Other"):
        cu.load(tmp_path, env=Other(spaces.Box(-1, 1, (3,))))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (7, 7, 3), dtype=np.uint8),
        spaces.Box(0, 255, (7, 7), dtype=np.uint8),
        spaces.Box(-1, 1, (2, 3)),
        spaces.Discrete(5),
    ],
)
def test_predict_takes_what_the_environment_returns(space: spaces.Space[Any]) -> None:
    agent = cu.SPRUCB(Own(space))
    env: Any = agent.trainer.env
    observations = np.stack([space.sample() for _ in range(4)])
    frames = np.stack([env.to_frame(each) for each in observations])
    expected, _ = agent.predict(frames)
    np.testing.assert_array_equal(agent.predict(observations)[0], expected)
    assert agent.predict(observations[0])[0] == expected[0]
    with pytest.raises(UserError, match="channels as the first axis"):
        agent.predict(np.zeros((1, 2, 3, 4, 5), dtype=np.uint8))


def test_minigrid_names_its_extra_and_its_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("minigrid"):
        with pytest.raises(UserError, match="did you mean 'MiniGrid-Empty-5x5-v0'"):
            registry.canonical_name("MiniGrid/Empty-5x5-v0")
        with pytest.raises(UserError, match="ImgObsWrapper"):
            registry.frame_shape_of("BabyAI-GoToObj-v0")
    monkeypatch.setattr(registry, "_has_minigrid", lambda: False)
    for name in ("MiniGrid-Empty-5x5-v0", "MiniGrid/Empty-5x5-v0", "BabyAI-GoToObj-v0"):
        with pytest.raises(UserError, match=r"pip install 'contrastive-ucb\[minigrid\]'"):
            registry.canonical_name(name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("solve lock --rounds ten", "--rounds takes a whole number, got 'ten'"),
        ("solve lock --alpha ten", "--alpha takes a number, got 'ten'"),
        ("train DeepSea-4 --threads 1.5", "--threads takes a whole number, got '1.5'"),
    ],
)
def test_numbers_of_options(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_error(words.split(), message, capsys)
