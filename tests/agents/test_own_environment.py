"""Algorithm 1 in a Gymnasium environment of the user: sources, `predict`, and `solved_return`."""

import json
import tomllib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import contrastive_ucb as cu
from contrastive_ucb.cli import main
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.runs.grid import grid_of
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.spec import command_words

QUICK: dict[str, Any] = {"trajectories": 4, "fit_steps": 5, "n_draws": 16, "hidden": 0}
LEARNS: dict[str, Any] = {"fit_steps": 30, "trajectories": 8, "alpha": 0.02}


class Keys(gymnasium.Env[Any, Any]):
    """Pays `best` for the action `prize`, which it shows by brighter images, otherwise `worst`."""

    action_space = gymnasium.spaces.Discrete(3, start=5)
    prize = 7

    def __init__(self, best: float = 1.0, worst: float = 0.0, length: int = 4):
        self.observation_space = gymnasium.spaces.Box(0, 1, (2, 2), np.float32)
        self.best, self.worst, self.length = best, worst, length

    def _look(self) -> Any:
        noise = self.np_random.uniform(0, 0.1, (2, 2))
        return (noise + 0.9 * self.found / self.length).astype(np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.step_number = self.found = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.step_number += 1
        self.found += int(action == self.prize)
        reward = self.best if action == self.prize else self.worst
        return self._look(), reward, self.step_number == self.length, False, {}


def trained(env: Any = Keys, rounds: int = 2, **options: Any) -> cu.ContrastiveUCB:
    agent = cu.ContrastiveUCB(env, seed=0, horizon=4, **QUICK | options)
    agent.learn(rounds=rounds, progress=False)
    return agent


@pytest.fixture(scope="module")
def agent() -> cu.ContrastiveUCB:
    return trained()


# Predict


def test_predict_accepts_what_the_environment_returns(agent: cu.ContrastiveUCB) -> None:
    """Regression: it demanded one more coordinate, and numbered actions from 0."""
    env = Keys()
    observation, _ = env.reset(seed=3)
    state, over, chosen = None, False, []
    while not over:
        vector = np.append(observation.ravel(), 0)
        expected = 5 + agent.policy_at(state or 0, vector[None])[0].argmax()
        assert agent.predict(vector, state)[0] == expected  # with the coordinate of the end
        action, state = agent.predict(observation, state)
        assert action == expected
        chosen.append(int(action))
        observation, _, over, _, _ = env.step(action)
    assert state == env.length
    assert set(chosen) <= {5, 6, 7}
    with pytest.raises(UserError, match="the steps 0 to 3, so end episodes after horizon = 4"):
        agent.predict(observation, state)


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
def test_a_batch_at_different_steps_equals_single_observations(
    agent: cu.ContrastiveUCB, rows: list[tuple[int, bool]]
) -> None:
    seen = np.random.default_rng(len(rows)).uniform(0, 1, (len(rows), 2, 2))
    steps, starts = (np.array(column) for column in zip(*rows, strict=True))
    actions, after = agent.predict(seen, steps, starts)
    for at, (step, start) in enumerate(rows):
        action, state = agent.predict(seen[at], None if start else step)
        assert (actions[at], after[at]) == (action, state)


def test_evaluate_policy_of_stable_baselines3(agent: cu.ContrastiveUCB) -> None:
    sb3 = pytest.importorskip("stable_baselines3.common.evaluation")

    class Own(Keys):  # Stable-Baselines3 numbers actions from 0
        action_space = gymnasium.spaces.Discrete(3)
        prize = 2

    learned, returns = trained(Own, rounds=8), []
    env = Own()
    env.reset(seed=1)
    mean, _ = sb3.evaluate_policy(learned, env, n_eval_episodes=5, warn=False)
    env = Own()
    env.reset(seed=1)
    for _ in range(5):
        (observation, _), state, over = env.reset(), None, False
        returns.append(0.0)
        while not over:
            action, state = learned.predict(observation, state)
            observation, reward, over, _, _ = env.step(action)
            returns[-1] += reward
    assert mean == pytest.approx(np.mean(returns))


@pytest.mark.parametrize(
    ("observation", "state", "message"),
    [
        (np.zeros(6), None, r"gym/Keys has shape \(2, 2\), got float64 of shape \(6,\)"),
        (np.zeros((3, 3)), None, r"has shape \(2, 2\), got"),
        (np.full((2, 2), np.nan), None, "NaN or infinite entry"),
        ("left", None, r"has shape \(2, 2\), got <U4"),
        (np.zeros((2, 2)), 1.5, "state counts the steps, got 1.5"),
        (np.zeros((2, 2)), -1, "out of range; the policy has the steps 0 to 3"),
        (np.zeros((3, 2, 2)), [0, 1], r"shape \(2,\) for 3 observations"),
    ],
)
def test_errors_of_predict(
    agent: cu.ContrastiveUCB, observation: Any, state: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        agent.predict(observation, state)
    assert "\n" not in str(caught.value)


def test_a_game_agent_counts_the_steps_in_the_same_way() -> None:
    agent = cu.ContrastiveULCB(cu.RichLockGame(3, 2), seed=0, **QUICK)
    seen = np.zeros((2, agent.envs[0].size))
    assert agent.predict(seen, 2, episode_start=True)[1] == 1
    _, steps = agent.predict(seen, [2, 1], [False, True])
    np.testing.assert_array_equal(steps, [3, 1])


def test_the_environment_of_the_agent_numbers_actions_likewise() -> None:
    env = cu.GymObserved(Keys, 4)
    env.reset(seed=0)
    assert env.step(7)[1] == 1
    assert env.action_space.contains(np.int64(5))
    with pytest.raises(ValueError, match=r"action is 0; it must be one of 5\.\.7"):
        env.step(0)


# Sources


def test_an_id_an_instance_and_a_factory_train_the_same_agent(agent: cu.ContrastiveUCB) -> None:
    gymnasium.register("Keys-v0", entry_point=Keys)
    others = [
        cu.GymObserved(Keys, 4),
        Keys(),
        lambda: Keys(),
        "Keys-v0",
        [gymnasium.make("Keys-v0")],
    ]
    for env in others:
        arguments = {} if isinstance(env, cu.GymObserved) else {"horizon": 4}
        seed: Any = [0] if isinstance(env, list) else 0
        other = cu.ContrastiveUCB(env, seed=seed, **arguments, **QUICK)
        other.learn(rounds=2, progress=False)
        np.testing.assert_array_equal(other.values, agent.values)
        name = "gym/Keys-v0" if env in others[3:] else "gym/Keys"
        assert other.envs[0].name == name


def test_arguments_of_the_environment() -> None:
    for env in (Keys, "Keys-v1"):
        if isinstance(env, str):
            gymnasium.register(env, entry_point=Keys)
        scores = trained(env, env_kwargs={"best": 0.5}).evaluate(5)["scores"]
        assert set(scores) <= {0, 0.5, 1, 1.5, 2}
        assert max(scores) > 0
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (Keys(), {"env_kwargs": {"best": 2}}, "no effect on an instance"),
        (Keys, {"env_kwargs": 3}, "env_kwargs must be a dictionary .* got 3"),
        (Keys, {"env_kwargs": {"bset": 3}}, "raised TypeError.*'bset'"),
        (cu.RichLock(3, 2), {"horizon": 3}, "horizon = 3 .* no effect on rich-lock.* RichLock"),
        (cu.Lock(3, 2), {"solved_return": 1.0}, "solved_return = 1.0 .* no effect on lock"),
        (Keys, {"solved_return": float("inf")}, "solved_return must be .*finite, got inf"),
        (3, {}, "int is not an environment; pass a Gymnasium id"),
    ]
    for env, options, message in cases:
        with pytest.raises(UserError, match=message) as caught:
            cu.ContrastiveUCB(env, seed=0, **options)
        assert "\n" not in str(caught.value)


def test_a_saved_agent_has_the_arguments_of_its_factory(tmp_path: Path) -> None:
    trained(Keys, env_kwargs={"best": 0.5}).save(tmp_path)
    for env in (Keys, Keys(0.5)):
        agent = cu.load(tmp_path, env=env)
        assert isinstance(agent, cu.ContrastiveUCB)
        scores = agent.evaluate(5)["scores"]
        assert set(scores) <= {0, 0.5, 1, 1.5, 2}
        assert max(scores) > 0


# The end of learning


@pytest.mark.parametrize(("best", "worst"), [(1.0, 0.0), (0.0, -2.0)])
def test_learning_ends_when_the_environment_is_solved(best: float, worst: float) -> None:
    """The limit is in rewards of the environment, also if they are mapped to [0, 1]."""
    limit, bounds = 3 * best + worst, {"reward_low": worst, "reward_high": max(best, 0.0)}
    options = {"env_kwargs": {"best": best, "worst": worst}, **bounds, **LEARNS}
    agent = trained(rounds=40, solved_return=limit, **options)
    summary = agent.session.summary(0)
    assert agent.n_rounds < 40
    assert summary["solved_at"] == agent.n_rounds - 4
    assert summary["raw_return"] >= limit
    assert min(agent.evaluate(5)["scores"]) >= limit - 1e-9
    with pytest.raises(UserError, match="gym/Keys is solved"):
        agent.learn(rounds=1, progress=False)
    never = trained(rounds=agent.n_rounds, solved_return=4 * best + 0.1, **options)
    assert never.session.summary(0)["solved_at"] is None
    # An oracle: the same episodes in the environment itself
    seeds = stream(0, "evaluate episodes").integers(2**31, size=3)
    returns = [own_return(agent, best, worst, int(seed)) for seed in seeds]
    np.testing.assert_allclose(agent.evaluate(3)["scores"], returns, atol=1e-9)


def own_return(agent: cu.ContrastiveUCB, best: float, worst: float, seed: int) -> float:
    env = Keys(best, worst)
    (observation, _), state, total, over = env.reset(seed=seed), None, 0.0, False
    while not over:
        action, state = agent.predict(observation, state)
        observation, reward, over, _, _ = env.step(action)
        total += reward
    return total


def test_the_stopping_rule_plays_no_further_episodes() -> None:
    """Regression: with a stopping rule every round was evaluated twice."""
    resets = []

    class Counted(Keys):
        def reset(self, **options: Any) -> Any:
            resets.append(0)
            return super().reset(**options)

    counts = []
    for limit in (None, 100.0):
        resets.clear()
        trained(Counted, solved_return=limit)
        counts.append(len(resets))
    assert counts == [2 * (4 * 4 + 20)] * 2


# The command line


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    name = f"Own{tmp_path.name.replace('_', '')[-8:]}-v0"
    text = f"import gymnasium\nfrom {Path(__file__).stem} import Keys\n"
    text += f"gymnasium.register({name!r}, entry_point=Keys)\n"
    (tmp_path / "own_keys.py").write_text(text)
    return f"own_keys:{name}"


def test_solve_stops_and_names_the_folder(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = f"solve gym --id {module} --horizon 4 --rounds 30 --solved-return 0 --env-kwargs best=0.5"
    quick = " --hidden 0 --trajectories 4 --fit-steps 5 --n-draws 16 --json"
    assert main((own + quick).split()) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["solved_at"] == summary["rounds"] - 4
    assert summary["rounds"] == 5
    [folder] = (tmp_path / "runs" / "solve" / "contrastive-ucb").iterdir()
    title = f"gym-id={module.replace(':', '-')},horizon=4,solved_return=0.0,best=0.5"
    assert folder.name.startswith(title)
    inputs = json.loads((folder / "seed_0" / "spec.json").read_text())["inputs"]
    again = command_words("solve", inputs)[1:]
    assert main([*again, "--seed", "0", "--json"]) == 0
    assert "finished already" in capsys.readouterr().err
    loaded = cu.load(folder, allow_import=True)
    assert isinstance(loaded, cu.ContrastiveUCB)
    assert loaded.envs[0].env_kwargs == {"best": 0.5}


def test_settings_of_a_grid_and_old_identities() -> None:
    flat = Problem("gym", settings={"env_kwargs.size": 3, "env_kwargs.kind": "a"})
    assert flat.env_settings["env_kwargs"] == {"size": 3, "kind": "a"}
    assert flat == Problem("gym", settings={"env_kwargs": {"size": 3, "kind": "a"}})
    table = tomllib.loads(
        'kind = "solve"\nenv = "gym"\nalgo = "contrastive-ucb"\nrounds = 1000\n'
        'settings = {env_kwargs.size = 3, env_kwargs.kind = "a"}'
    )
    assert grid_of(table, "own").jobs[0].task == flat
    assert "CartPole-v1" in flat.spec(0).folder(Path("runs")).parent.name
    plain = Problem("gym", settings={"solved_return": None})
    assert "solved_return" not in plain.spec(0).config["env"]  # as before it was added
    with pytest.raises(UserError, match=r"env_seed = 3 has no effect on gym.*leave it out"):
        Problem("gym", env_seed=3)
    with pytest.raises(UserError, match="solved_return takes a number, or none, got 'x'"):
        Problem("gym", settings={"solved_return": "x"})


def test_words_of_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "gym", "--env-kwargs", "size"]) == 2
    assert "write KEY=VALUE" in capsys.readouterr().err
