"""The lock board: counting, the stopping rule, the protocol, and short runs on H = 3."""

import json
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrastive_ucb as cu
from contrastive_ucb.cli import main
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.locks import (
    BudgetSpent,
    LockEnv,
    LockRun,
    LockTask,
    Meter,
    OwnAgent,
    OwnDeepAgent,
    Policy,
    agent_called,
    board_rows,
    tasks,
)

TASK = LockTask(horizon=3, n_actions=3, budget=200, seed=5)


def decoded(observations: np.ndarray) -> np.ndarray:
    """The latent of each observation: the largest of the first three rotated coordinates."""
    rotation = cu.RichLock(3, 3).rotation
    return np.asarray((observations @ rotation)[:, :3].argmax(1))


class Decoder:
    """Tries the actions in each decoded good state until one of them leads to a good state."""

    def __init__(self, seed: int):
        self.wrong: dict[tuple[int, int], int] = {}  # how many actions are known to be wrong

    def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Iterator[Policy]:
        env = env_factory()
        while env.remaining:
            observation, _ = env.reset()
            for step in range(env.horizon):
                (state,) = decoded(observation[None])
                action = self.wrong.get((step, state), 0)
                observation = env.step(action)[0]
                if decoded(observation[None])[0] == 2:  # dead
                    self.wrong[step, state] = action + 1
                    break
            yield self.act

    def act(self, step: int, observations: np.ndarray) -> np.ndarray:
        return np.array([self.wrong.get((step, s), 0) % 3 for s in decoded(observations)])


def oracle(seed: int) -> Policy:
    """The optimal policy, from the combination."""
    combination = cu.RichLock(3, 3, seed).base.combination
    return lambda step, seen: combination[step, np.minimum(decoded(seen), 1)]


class Given:
    """Begins `count` trajectories with `act` steps each, then returns a policy."""

    def __init__(self, policy: Any, count: int = 4, steps: int = 2):
        self.policy, self.count, self.steps = policy, count, steps

    def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Policy:
        envs = [env_factory(), env_factory()]
        for at in range(self.count):
            envs[at % 2].reset()
            for _ in range(self.steps):
                envs[at % 2].step(0)
        return self.policy


# The rule


def test_a_returned_policy_is_evaluated_five_times() -> None:
    run = TASK.run("oracle", lambda seed: Given(oracle(seed)))
    assert (run.solved, run.evaluations, run.trajectories, run.env_steps) == (True, 5, 4, 8)
    worse = TASK.run("worse", lambda seed: Given(lambda step, seen: np.zeros(len(seen), int)))
    assert not worse.solved


@pytest.mark.parametrize("pattern", ["111110", "1101111", "01111", "10111101", "0"])
def test_five_evaluations_in_a_row_solve_a_lock(pattern: str) -> None:
    """An oracle: the first five ones in a row, where the last policy is repeated."""
    good = oracle(TASK.seed)

    def bad(step: int, seen: np.ndarray) -> np.ndarray:
        return (good(step, seen) + 1) % 3

    class Agent:
        def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Iterator[Policy]:
            env = env_factory()
            for letter in pattern:
                env.reset()
                yield good if letter == "1" else bad

    run = TASK.run("pattern", lambda seed: Agent())
    whole = pattern + 5 * pattern[-1]
    at = whole.find("11111")
    assert run.solved == (at >= 0)
    assert run.evaluations == (at + 5 if at >= 0 else len(whole))
    assert run.trajectories == min(run.evaluations, len(pattern))


def test_the_budget_is_a_limit_on_trajectories_in_all_environments() -> None:
    class Greedy:
        def __init__(self, last: Any = None, catches: bool = False):
            self.last, self.catches, self.reached = last, catches, 0

        def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Any:
            original = env_factory()
            envs = [original, deepcopy(original), env_factory()]
            try:
                while True:
                    envs[self.reached % 3].reset(seed=self.reached)
                    self.reached += 1
                    if self.last is not None and not self.catches:
                        yield self.last
            except BudgetSpent:
                assert original.remaining == 0
                if not self.catches:
                    raise
            yield self.last

    cases = [(None, False, False), (oracle(TASK.seed), True, True)]
    for last, catches, solved in cases:
        agent = Greedy(last, catches)
        run = TASK.run("greedy", lambda seed, agent=agent: agent)
        assert agent.reached == run.trajectories == TASK.budget
        assert run.solved == solved
    never = Greedy(lambda step, seen: np.zeros(len(seen), int))
    run = TASK.run("greedy", lambda seed: never)
    assert (run.solved, run.trajectories, run.evaluations) == (False, 200, 205)


def test_trajectories_in_another_process_are_an_error() -> None:
    env = pickle.loads(pickle.dumps(LockEnv(cu.RichLock(3, 3), Meter(9), 0)))
    env.reset()  # still this process
    pool = multiprocessing.get_context("spawn").Pool(1)
    with pool, pytest.raises(UserError, match="which is not counted in process"):
        pool.apply(env.reset)


def test_an_error_of_the_agent_is_not_hidden() -> None:
    class Broken:
        def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Policy:
            raise RuntimeError("mistake of the agent")

    with pytest.raises(RuntimeError, match="mistake of the agent"):
        TASK.run("broken", lambda seed: Broken())
    for policy, message in (
        (None, "returned None as a policy; return a function"),
        (lambda step, seen: 0, r"returned int64 of shape \(\); return 20 whole numbers"),
        (lambda step, seen: np.full(len(seen), 3), "whole numbers from 0 to 2"),
        (lambda step, seen: np.full(len(seen), 0.5), "returned float64"),
    ):
        with pytest.raises(UserError, match=message):
            TASK.run("wrong", lambda seed, policy=policy: Given(policy))


def test_environments_depend_on_the_seed_only() -> None:
    def first(seed: int, number: int) -> np.ndarray:
        lock = cu.RichLock(3, 3, seed)
        return LockEnv(lock, Meter(9), number).reset()[0]

    np.testing.assert_array_equal(first(1, 0), first(1, 0))
    assert not np.array_equal(first(1, 0), first(1, 1))
    assert not np.array_equal(first(1, 0), first(2, 0))


# Agents


def test_a_learner_solves_a_short_lock() -> None:
    runs = [TASK.run("decoder", Decoder) for _ in range(2)]
    assert runs[0].solved
    assert 5 <= runs[0].trajectories < 40  # at most 2 wrong actions in each of 6 states, and five
    again = [{**vars(run), "cpu_seconds": 0} for run in runs]
    assert again[0] == again[1]


def test_an_agent_of_this_package_on_the_board() -> None:
    """Every trajectory of Algorithm 3 is counted; the agent ends with its budget."""
    task = LockTask(horizon=2, n_actions=2, budget=1000, seed=1)

    class Quick(OwnAgent):
        def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Iterator[Policy]:
            env = env_factory()
            for at, policy in enumerate(super().run(env_factory, budget)):
                if at == 0:
                    per_round.append(budget - env.remaining)
                yield policy
                if at == 1:
                    return

    per_round: list[int] = []
    short = {"fit_steps": 5, "n_draws": 16, "hidden": 0}
    run = task.run("own", lambda seed: Quick("contrastive-ucb", seed, **short))
    assert per_round[0] > 0
    assert run.trajectories in (per_round[0], 2 * per_round[0])
    assert run.env_steps == 2 * run.trajectories
    assert run.evaluations >= 2
    task = LockTask(2, 2, per_round[0] + 1, 1)
    spent = task.run("own", lambda seed: OwnAgent("no-bonus", seed, **short))
    assert spent.trajectories == per_round[0] + 1


def test_a_deep_agent_on_the_board() -> None:
    task = LockTask(horizon=2, n_actions=2, budget=45, seed=1)
    run = task.run("rainbow", lambda seed: OwnDeepAgent("rainbow", seed, hidden=8))
    assert run.trajectories <= 45
    assert run.env_steps <= 90
    assert run.evaluations >= 5  # after 20 and 40 trajectories, and of the last policy


# The file and the command


def test_the_locks_of_the_board_are_frozen() -> None:
    board = tasks()
    assert {task.n_actions for task in board} == {10}
    counts = {6: 10, 12: 10, 24: 5, 50: 5, 100: 3}
    horizons = [task.horizon for task in board]
    assert {horizon: horizons.count(horizon) for horizon in horizons} == counts
    assert all(task.seed >= 1000 and task.budget >= 20_000 for task in board)
    assert len(tasks([6, 12], seeds=2)) == 4
    with pytest.raises(UserError, match=r"no lock has horizon 7; choose from \[6, 12, 24, 50"):
        tasks([7])


def test_rows_have_medians_over_solved_seeds() -> None:
    def run(seed: int, solved: bool, count: int, agent: str = "a") -> LockRun:
        return LockRun(agent, 3, 3, 99, seed, solved, count, 2 * count, 1.5, 7)

    rows = board_rows(
        [run(0, True, 10), run(1, False, 99), run(2, True, 30), run(0, False, 9, "b")]
    )
    assert [(r["agent"], r["solved"], r["seeds"], r["trajectories"]) for r in rows] == [
        ("a", 2, 3, 20),
        ("b", 0, 1, None),
    ]


def test_verify_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
    source += "from test_locks import Decoder\nprint('imported')\n\ndef make(seed):\n"
    Path("own_board_agent.py").write_text(source + "    return Decoder(seed)\n\nother = make\n")
    words = ["verify", "locks", "--agent", "own_board_agent:make", "--quick", "--out", "board"]
    assert main([*words, "--seeds", "1", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert [(r["horizon"], r["solved"], r["seeds"]) for r in one["rows"]] == [(3, 1, 1)]
    assert main([*words, "--json"]) == 0  # continues with the second seed
    printed = capsys.readouterr()
    both = json.loads(printed.out)
    assert both["runs"][0] == one["runs"][0]
    assert [run["seed"] for run in both["runs"]] == [1000, 1001]
    assert "seed 1000" not in printed.err
    assert "2 of 2" in printed.err
    words[3] = "own_board_agent:other"
    assert main([*words, "--json"]) == 0
    shared = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["agent"][-5:], row["solved"]) for row in shared] == [(":make", 2), ("other", 2)]
    damaged = Path("board/locks.json")
    damaged.write_text(damaged.read_text().replace("true", "false", 1))
    assert main(words) == 2
    assert "damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "agent is 'nothing'; write module:function, or one of contrastive-ucb"),
        ("no_such_module:make", "cannot be imported .*no_such_module"),
        ("json:nothing", "cannot be imported .*nothing"),
        ("math:pi", "must be a function of a seed"),
    ],
)
def test_errors_of_the_name(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        agent_called(name)
