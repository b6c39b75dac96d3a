"""PPO with a bonus as an agent of `cucb train`."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from runs.training_runs import Stop, run, same_results, stopping_at

import contrastive_ucb as cu
from contrastive_ucb.core.errors import EnvironmentFault, UserError
from contrastive_ucb.envs.deepsea import DeepSeaGrid
from contrastive_ucb.runs.deep_agent import load_weights
from contrastive_ucb.runs.training import Training, read_settings

pytest.importorskip("stable_baselines3")
from contrastive_ucb.agents.ppo import trainer as module
from contrastive_ucb.agents.ppo.trainer import FrameVecEnv, seeded
from contrastive_ucb.envs.registry import make_deep_env

TINY = {"envs": 3, "rollout_steps": 16, "batch_size": 12, "passes": 2, "mlp": (8,)}
BONUS = {"intrinsic.bonus": "contrastive", "intrinsic.dim": 4, "intrinsic.hidden": (8,)}
BONUS |= {"intrinsic.every": 32, "intrinsic.batch_size": 8, "intrinsic.snapshot_every": 2}
SEA, CART, GRID = "DeepSea-5", "CartPole-v1", "MiniGrid-Empty-5x5-v0"
TASKS = {
    "no bonus": Training(SEA, "ppo", TINY, 200),
    "contrastive": Training(SEA, "ppo", TINY | BONUS, 200),
    "vectors": Training(CART, "ppo", TINY | BONUS, 200),
    "grids": Training(GRID, "ppo", TINY | BONUS, 200),
    "counts": Training(GRID, "ppo", TINY | {"intrinsic.bonus": "counts"}, 200),
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", TASKS)
def test_stopped_run_equals_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    whole = run(TASKS[name], tmp_path / "whole")
    assert whole["steps"] == 240  # 200, rounded up to rollouts of 48
    for step in (48, 144):
        torch.manual_seed(step)  # global generators do not matter
        with pytest.raises(Stop):
            run(TASKS[name], tmp_path / "parts", every=0.0, observers=[stopping_at(step)])
    same_results(whole, run(TASKS[name], tmp_path / "parts"))


def test_seeds_differ_and_agree_with_themselves(tmp_path: Path) -> None:
    task = TASKS["grids"]
    results = [run(task.with_seed(seed), tmp_path / str(at)) for at, seed in enumerate((0, 0, 1))]
    metrics = [(Path(result["run_dir"]) / "metrics.jsonl").read_bytes() for result in results]
    assert metrics[0] == metrics[1] != metrics[2]
    same_results(results[0], results[1])


def global_state() -> np.ndarray:
    return np.array(np.random.get_state()[1])  # noqa: NPY002


def permutation() -> np.ndarray:
    return np.random.permutation(1000)[:3]  # noqa: NPY002


def test_global_generators_are_restored() -> None:
    before = torch.get_rng_state(), global_state()
    with seeded(0, "a"):
        first = torch.rand(3), permutation()
    with seeded(0, "a"):
        again = torch.rand(3), permutation()
    with seeded(0, "b"):
        other = torch.rand(3), permutation()
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == global_state()).all()
    for one, same, different in zip(first, again, other, strict=True):
        assert (one == same).all()
        assert (one != different).any()


def test_every_rollout_has_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []

    def noted(seed: int, name: str) -> Any:
        names.append(name)
        return seeded(seed, name)

    monkeypatch.setattr(module, "seeded", noted)
    list(TASKS["no bonus"].trainer().run(200))
    assert len(names) == len(set(names)) == 6  # weights and five rollouts


@pytest.mark.parametrize(("name", "steps", "n_ends"), [(SEA, 23, 8), (GRID, 105, 2)])
def test_environments_equal_separate_ones(name: str, steps: int, n_ends: int) -> None:
    """Observations, rewards and final observations are those of environments stepped alone.

    The intrinsic reward gets the final observation of an episode and is added to the reward.
    """
    envs = [make_deep_env(name, seed=0, training=True, role=f"train-{at}") for at in range(2)]
    alone = [make_deep_env(name, seed=0, training=True, role=f"train-{at}") for at in range(2)]
    venv = FrameVecEnv(2, envs[0].frame_shape, 1, envs[0].n_actions)
    venv.envs, given = envs, []

    def step_bonus(*transition: np.ndarray) -> np.ndarray:
        given.append(transition)
        return np.array([0.5, 0.25])

    venv.intrinsic = SimpleNamespace(step=step_bonus)
    before = venv.reset()
    np.testing.assert_array_equal(before, [env.reset() for env in alone])
    ends = 0
    for actions in np.random.default_rng(0).integers(0, 2, (steps, 2)):
        seen, rewards, dones, infos = venv.step(actions)
        first, taken, last, ended = given.pop()
        np.testing.assert_array_equal(first, before)
        np.testing.assert_array_equal(taken, actions)
        np.testing.assert_array_equal(ended, dones)
        before = seen
        for at, env in enumerate(alone):
            step = env.step(int(actions[at]))
            added = np.float32([0.5, 0.25][at])
            assert rewards[at] == np.float32(step.reward) + added
            np.testing.assert_array_equal(last[at], step.frame)
            assert dones[at] == (step.terminated or step.truncated)
            assert infos[at]["TimeLimit.truncated"] == (step.truncated and not step.terminated)
            if dones[at]:
                assert step.truncated == (name == GRID)  # which only turns
                ends += 1
                np.testing.assert_array_equal(infos[at]["terminal_observation"], step.frame)
                np.testing.assert_array_equal(seen[at], env.reset())
            else:
                np.testing.assert_array_equal(seen[at], step.frame)
    assert ends == len(venv.episodes) == n_ends


def test_stacked_frames_do_not_cross_episodes() -> None:
    """Frames before the first one are zero; the final observation has the last two frames."""
    env = make_deep_env(SEA, seed=0, training=True)
    venv = FrameVecEnv(1, env.frame_shape, 2, env.n_actions)
    venv.envs, size = [env], int(np.prod(env.frame_shape))
    before = venv.reset()[0]
    for _ in range(12):
        assert before[size:].any()
        after, _, dones, infos = venv.step([0])
        final = infos[0].get("terminal_observation", after[0])
        np.testing.assert_array_equal(final[:size], before[size:])
        assert after[0, :size].any() != dones[0]
        before = after[0]
    assert len(venv.episodes) == 2


def test_ppo_learns_to_reach_the_goal(tmp_path: Path) -> None:
    settings = {"envs": 8, "rollout_steps": 64, "learning_rate": 1e-3}
    summary = run(Training(GRID, "ppo", settings, 14_000), tmp_path)
    lines = (Path(summary["run_dir"]) / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(line).get("charts/success_rate", 0.0) for line in lines]
    assert summary["success_of_last_100"] == rates[-1]
    assert rates[-1] > 0.9 > 0.6 > min(rates[:3])
    agent = load_weights(Path(summary["run_dir"]))
    again = agent.evaluate(3)["scores"]
    last = (Path(summary["run_dir"]) / "eval.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["scores"] == again


def test_ppo_is_an_agent_in_python(tmp_path: Path) -> None:
    agent = cu.DeepAgent(GRID, algo="ppo", settings=TINY | {"intrinsic.bonus": "rnd"})
    agent.learn(steps=48, progress=False)
    copy = cu.load(agent.save(tmp_path / "agent").parent)
    for one in (agent, copy):
        one.learn(steps=48, progress=False)
    assert agent.n_steps == copy.n_steps == 96
    env = gymnasium.make(GRID)
    image = env.reset(seed=0)[0]["image"]
    assert agent.predict(image)[0] == copy.predict(image)[0]
    states = [one.trainer.agent.state_dict()["policy"] for one in (agent, copy)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_settings_are_read_by_the_type_of_the_bonus() -> None:
    words = ["intrinsic.hidden=32,16", "intrinsic.bonus=contrastive", "intrinsic.scope=lifelong"]
    words += ["intrinsic.learning_rate=1e-3", "intrinsic.normalize=no"]
    task = Training(SEA, "ppo", read_settings(words), 10)
    intrinsic = task.spec().config["agent"]["intrinsic"]
    assert intrinsic["settings"]["hidden"] == [32, 16]
    assert intrinsic["settings"]["learning_rate"] == 1e-3
    assert intrinsic["settings"]["dim"] == 64
    assert intrinsic["normalize"] is False
    assert Training.of_spec(task.spec()).config == task.config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"intrinsic.bonus": "rmd"}, ["rmd", "'rnd'"]),
        ({"intrinsic.bonus": "rnd", "intrinsic.dimm": 3}, ["dimm", "'dim'"]),
        ({"intrinsic.bonus": "rnd", "intrinsic.scale": -1}, ["intrinsic.scale", "-1"]),
        ({"entropie": 0.1}, ["entropie", "'entropy'"]),
        ({"batch_size": 1}, ["batch_size", "at least 2"]),
        ({"batch_size": 2047}, ["2047", "divisor"]),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], words: list[str]) -> None:
    with pytest.raises((UserError, ValueError)) as error:
        _ = Training(SEA, "ppo", settings, 10).config
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_failing_environment_leaves_the_last_rollout(tmp_path: Path) -> None:
    """A run that failed within a rollout continues from the rollout before it."""
    task = TASKS["contrastive"]
    whole = run(task, tmp_path / "whole")
    step = DeepSeaGrid._advance
    calls = iter(range(10**9))

    def fail_late(env: DeepSeaGrid, action: int) -> object:
        if next(calls) == 3 * 16 + 20:
            raise EnvironmentFault("the environment failed")
        return step(env, action)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeepSeaGrid, "_advance", fail_late)
        with pytest.raises(EnvironmentFault, match="step 48"):
            run(task, tmp_path / "parts", every=0.0)
    same_results(whole, run(task, tmp_path / "parts"))
