"""Faulty environments are reported in one line, after saving; a corrected one continues exactly."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import gymnasium
import numpy as np
import pytest
from faults.runs import FAST, TINY, call, is_traceback, results_of
from gymnasium import spaces

import contrastive_ucb as cu
from contrastive_ucb.core.errors import EnvironmentFault
from contrastive_ucb.envs.foreign import LARGEST_REWARD, ForeignEnv
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.evaluation import rollouts

NAN, INF = float("nan"), float("inf")
SETTINGS = {"first_update": 20, "hidden": 8, "mlp": (8,), "atoms": 11, "batch_size": 4}
SETTINGS |= {"n_step": 3, "jumps": 2, "updates_per_step": 1}


class Faulty(gymnasium.Env[Any, Any]):
    """Episodes of 6 steps; all copies together return correct values for `Faulty.left` steps."""

    left: float = INF
    fault: dict[str, Any]
    endless = False
    observation_space: spaces.Space[Any] = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.n_steps = 0
        if Faulty.left <= 0 and "reset" in self.fault:
            raise self.fault["reset"]
        return self.value(), {}

    def step(self, action: int) -> Any:
        self.n_steps += 1
        Faulty.left -= 1
        over = self.n_steps == 6 and not self.endless
        returned = {"observation": self.value(), "reward": float(action)}
        if Faulty.left <= 0:
            if "step" in self.fault:
                raise self.fault["step"]
            returned |= self.fault
        return returned["observation"], returned["reward"], over, False, {}

    def value(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


class FaultyImage(Faulty):
    observation_space = spaces.Box(0, 255, (5, 5, 2), dtype=np.uint8)

    def value(self) -> Any:
        return self.np_random.integers(0, 256, (5, 5, 2), dtype=np.uint8)


class FaultyDiscrete(Faulty):
    observation_space = spaces.Discrete(4)

    def value(self) -> Any:
        return int(self.np_random.integers(4))


KINDS: dict[str, type[Faulty]] = {"V": Faulty, "I": FaultyImage, "D": FaultyDiscrete}
VECTOR = np.zeros(3, dtype=np.float32)
IMAGE = np.zeros((5, 5, 2), dtype=np.uint8)
FAULTS = {  # name: kind of observation, what is returned or raised, what the message contains
    "nan": ("V", {"observation": np.array([0, NAN, 0])}, "nan at index [1]"),
    "inf": ("V", {"observation": np.array([INF, 0, 0])}, "inf at index [0]"),
    "too large for float32": ("V", {"observation": np.full(3, 1e200)}, "1e+200 at index [0]"),
    "shape": ("V", {"observation": np.zeros(4)}, "shape (4,)"),
    "none": ("V", {"observation": None}, "the observation None"),
    "text": ("V", {"observation": "left"}, "the observation 'left'"),
    "ragged": ("V", {"observation": [[1], [1, 2], 3]}, "must be numbers"),
    "reward nan": ("V", {"reward": NAN}, "reward nan"),
    "reward inf": ("V", {"reward": -INF}, "reward -inf"),
    "reward 1e30": ("V", {"reward": 1e30}, "reward 1e+30"),
    "reward none": ("V", {"reward": None}, "the reward None"),
    "step": (
        "V",
        {"step": RuntimeError("the motor\nis stuck")},
        "RuntimeError: the motor is stuck",
    ),
    "reset": ("V", {"reset": KeyError("map")}, "KeyError: 'map' in reset()"),
    "image nan": ("I", {"observation": np.full((5, 5, 2), NAN)}, "nan at index [0, 0, 0]"),
    "image 300": ("I", {"observation": IMAGE + np.int64(300)}, "uint8, which cannot represent"),
    "image -1": ("I", {"observation": IMAGE - np.int16(1)}, "-1 at index [0, 0, 0]"),
    "image in [0, 1]": ("I", {"observation": IMAGE + 0.5}, "0.5 at index [0, 0, 0]"),
    "image shape": ("I", {"observation": IMAGE.reshape(2, 5, 5)}, "shape (2, 5, 5)"),
    "discrete": ("D", {"observation": -1}, "observation -1, which is not in Discrete(4)"),
}
for name, kind in KINDS.items():
    gymnasium.register(id=f"Faulty{name}-v0", entry_point=kind, max_episode_steps=100)

parametrized = pytest.mark.parametrize("case", FAULTS)


@pytest.fixture(autouse=True)
def _correct() -> Iterator[None]:
    break_after(INF)
    yield
    break_after(INF)


def break_after(steps: float, case: str = "nan") -> tuple[str, str]:
    """Correct values for this many steps; returns the id and what the message contains."""
    kind, Faulty.fault, text = FAULTS[case]
    Faulty.left, Faulty.endless = steps, False
    return f"Faulty{kind}-v0", text


def check_message(text: str, env: str, found: str) -> None:
    assert found in text
    assert env in text
    assert "at step " in text
    assert " of episode " in text
    assert not is_traceback(text)


def train(env: str, out: Path) -> list[str]:
    words = f"train {env} --set {TINY} --steps 60 {FAST} --out {out}"
    return words.split()


def solve(env: str, out: Path) -> list[str]:
    words = f"solve gym --id {env} --horizon 4 --rounds 3 --trajectories 2 --fit-steps 3"
    return [*words.split(), "--out", str(out)]


@cache
def whole(env: str, words: Callable[[str, Path], list[str]]) -> Path:
    """The folder of a run without faults."""
    out = Path(mkdtemp())
    assert call(words(env, out)).code == 0
    return out


@cache
def learned(env: str) -> cu.DeepAgent:
    """An agent that has learned without faults."""
    agent = cu.DeepAgent(env, settings=SETTINGS)
    agent.learn(steps=60, progress=False)
    return agent


@parametrized
def test_train(case: str, tmp_path: Path) -> None:
    """The run is saved at the last complete step and continues to the same result."""
    env, text = break_after(29, case)
    run = call(train(env, tmp_path / "run"))
    assert run.code == 2
    assert run.err.splitlines()[-1].startswith(f"cucb: {env} ")
    check_message(run.err, env, text)
    (checkpoint,) = (tmp_path / "run").rglob("checkpoints/step_*")
    assert f"saved at step {checkpoint.name[5:]}" in run.err
    assert 25 <= int(checkpoint.name[5:]) <= 30
    (log,) = (tmp_path / "run").rglob("log.txt")
    assert "Traceback" in log.read_text()
    if "step" in Faulty.fault:
        assert "is stuck" in log.read_text()
        assert call([*train(env, tmp_path / "run"), "--debug"]).code is None  # raises it
    break_after(INF, case)
    assert call(train(env, tmp_path / "run")).code == 0
    assert results_of(tmp_path / "run") == results_of(whole(env, train))


@parametrized
def test_solve(case: str, tmp_path: Path) -> None:
    kind, *_ = FAULTS[case]
    if kind == "D":
        pytest.skip("needs Box observations")
    env, text = break_after(130, case)
    run = call(solve(env, tmp_path / "run"))
    assert run.code == 2
    check_message(run.err, env, text)
    assert ("saved at step" in run.err) == any((tmp_path / "run").rglob("checkpoints/step_*"))
    break_after(INF, case)
    assert call(solve(env, tmp_path / "run")).code == 0
    assert results_of(tmp_path / "run") == results_of(whole(env, solve))


@parametrized
def test_evaluation(case: str) -> None:
    env, text = break_after(INF, case)
    run = whole(env, train)
    break_after(8, case)
    played = call(["eval", str(run), "--episodes", "3"])
    assert played.code == 2
    assert len(played.err.splitlines()) == 1
    check_message(played.err, env, text)
    assert "(eval-" in played.err


@parametrized
def test_python(case: str, tmp_path: Path) -> None:
    """After a fault an agent can learn on, or be saved and loaded, as if nothing had happened."""
    env, text = break_after(INF, case)
    expected, continued = learned(env), cu.DeepAgent(env, settings=SETTINGS)
    break_after(29, case)
    with pytest.raises(EnvironmentFault) as caught:
        continued.learn(steps=60, progress=False)
    check_message(str(caught.value), env, text)
    with pytest.raises(EnvironmentFault):  # it is still broken
        continued.learn(steps=60 - continued.n_steps, progress=False)
    break_after(INF, case)
    continued.save(tmp_path)
    for other in (cu.load(tmp_path), continued):
        other.learn(steps=60 - other.n_steps, progress=False)  # type: ignore[call-arg]
        assert isinstance(other, cu.DeepAgent)
        np.testing.assert_array_equal(other.returns, expected.returns)
        assert other.evaluate(2) == expected.evaluate(2)


def test_constructors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(self: Any) -> None:
        raise OSError("no screen")

    monkeypatch.setattr(Faulty, "__init__", broken)
    run = call(train("FaultyV-v0", tmp_path))
    assert run.code == 2
    assert "FaultyV-v0 raised OSError: no screen" in run.err
    for make in (cu.SPRUCB, lambda env: cu.GymObserved(env, 3)):
        with pytest.raises(EnvironmentFault, match="raised OSError: no screen"):
            make(Faulty)


def test_environments_that_never_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gymnasium.register(id="Endless-v0", entry_point=Faulty)
    monkeypatch.setattr(Faulty, "endless", True)
    monkeypatch.setattr(rollouts, "LONGEST", 50)
    run = call(train("Endless-v0", tmp_path))
    assert run.code == 0
    (cut,) = [line for line in run.err.splitlines() if "2 of 2 episodes of Endless-v0" in line]
    assert "within 50 steps" in cut
    (no_end,) = [line for line in run.err.splitlines() if "no training episode" in line]
    assert "in 60 steps" in no_end
    assert "TimeLimit" in cut
    assert "TimeLimit" in no_end


def test_observations_outside_of_a_box_cause_one_warning() -> None:
    env, _ = break_after(0, "nan")
    Faulty.fault = {"observation": np.array([0, 1.5, 0], dtype=np.float32)}
    frames = GymFrames(env)
    frames.reset()
    with pytest.warns(UserWarning, match=r"1.5 at index \[1\] at step 1 of episode 0, .*outside"):
        frames.step(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frames.step(0)


@pytest.mark.parametrize("returned", [None, (1,), [0, {}]])
def test_wrong_tuples(returned: Any) -> None:
    class Wrong(Faulty):
        pass

    env = ForeignEnv(Wrong(), "Wrong", lambda: "at step 1 of episode 0")
    for name, act in (("reset", lambda: env.reset(0)), ("step", lambda: env.step(0))):
        setattr(Wrong, name, lambda *_, **__: returned)
        with pytest.raises(
            EnvironmentFault, match=rf"Wrong did not return a .* from {name}\(\) at step"
        ):
            act()


def correct(space: spaces.Space[Any], value: Any) -> Callable[[], Any]:
    class Other(Faulty):
        observation_space = space

        def value(self) -> Any:
            return value

    return Other


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Box(0, 255, (4, 4, 3), dtype=np.uint8), np.full((4, 4, 3), 255.0)),  # exact
        (spaces.Box(0, 255, (4, 4), dtype=np.uint8), np.ones((4, 4), dtype=bool)),
        (spaces.Box(-np.pi, np.pi, (1,)), np.array([np.pi])),  # above the bound before rounding
        (spaces.Box(-INF, INF, (2,)), [3, -4.5e37]),
        (spaces.Discrete(3, start=2), np.int64(4)),
    ],
)
def test_correct_values_are_accepted(space: spaces.Space[Any], value: Any) -> None:
    env = GymFrames("own", correct(space, value))
    Faulty.fault, Faulty.left = {"reward": np.float32(LARGEST_REWARD / 2)}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset()
        assert env.step(1).reward == pytest.approx(LARGEST_REWARD / 2)
