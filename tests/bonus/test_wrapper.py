"""The wrappers of Gymnasium environments, against counts and against loops over environments."""

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from bonus.walks import Reused, Walk
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch import nn

import contrastive_ucb as cu
from contrastive_ucb.bonus import (
    Bonus,
    BonusWrapper,
    Elliptical,
    IntrinsicReward,
    Training,
    VectorBonusWrapper,
    make_bonus,
)
from contrastive_ucb.core.errors import UserError

MODES = list(AutoresetMode)
LENGTHS = (2, 3, 5)
QUICK = {"training": Training(every=20, steps=2, batch_size=8, memory=30), "snapshot_every": 1}
COUNTS: dict[str, Any] = {"bonus": "elliptical", "scale": 1.0, "normalize": False}


def vector(
    mode: AutoresetMode,
    lengths: tuple[int, ...] = LENGTHS,
    kind: str = "discrete",
    truncates: bool = False,
    **options: Any,
) -> SyncVectorEnv:
    makers = [lambda n=n: Walk(n, kind, truncates) for n in lengths]
    return SyncVectorEnv(makers, autoreset_mode=mode, **options)


def steps(env: VectorBonusWrapper, actions: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Reward and info of each step; finished environments are reset in mode Disabled."""
    env.reset(seed=0)
    taken = []
    for action in actions:
        _, reward, terminations, truncations, info = env.step(action)
        taken.append((reward, info))
        dones = terminations | truncations
        if env.metadata["autoreset_mode"] == AutoresetMode.DISABLED and dones.any():
            env.reset(options={"reset_mask": dones})
    return taken


def random_actions(n_steps: int, n_envs: int) -> Any:
    return np.random.default_rng(0).integers(0, 2, (n_steps, n_envs))


def batch(rows: list[Any]) -> Any:
    if isinstance(rows[0], dict):
        return {key: batch([row[key] for row in rows]) for key in rows[0]}
    if isinstance(rows[0], tuple):
        return tuple(batch(list(part)) for part in zip(*rows, strict=True))
    return np.array(rows)


def naive(intrinsic: IntrinsicReward, walks: list[Walk], actions: Any, next_step: bool) -> Any:
    """The intrinsic rewards of environments that are stepped one by one; 0 for resets."""
    seen, over, rewards = [walk.reset()[0] for walk in walks], [False] * len(walks), []
    for chosen in actions:
        rows, ids = [], []
        for at, (walk, action) in enumerate(zip(walks, chosen, strict=True)):
            if over[at] and next_step:
                seen[at], over[at] = walk.reset()[0], False
                continue
            if over[at]:
                seen[at] = walk.reset()[0]
            after, _, terminated, truncated, _ = walk.step(action)
            over[at] = terminated or truncated
            rows.append((seen[at], action, after, over[at]))
            ids.append(at)
            seen[at] = after
        added = np.zeros(len(walks))
        if rows:
            parts = [batch([row[at] for row in rows]) for at in range(4)]
            added[ids] = intrinsic.step(*parts, np.array(ids))
        rewards.append(added)
    return np.array(rewards)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["discrete", "box", "dict", "tuple"])
@pytest.mark.parametrize("truncates", [False, True])
def test_a_vector_wrapper_equals_a_loop_that_feeds_one_bonus(
    mode: AutoresetMode, kind: str, truncates: bool
) -> None:
    actions = random_actions(40, len(LENGTHS))
    env = VectorBonusWrapper(vector(mode, kind=kind, truncates=truncates), seed=3, **QUICK)
    taken = steps(env, actions)
    walks = [Walk(n, kind, truncates) for n in LENGTHS]
    own = walks[0]
    bonus = make_bonus(
        "contrastive", own.observation_space, own.action_space, n_envs=3, seed=3, **QUICK
    )
    expected = naive(IntrinsicReward(bonus), walks, actions, mode == AutoresetMode.NEXT_STEP)
    assert np.array_equal([info["intrinsic_reward"] for _, info in taken], expected)
    assert env.intrinsic.bonus.n_seen == bonus.n_seen
    assert len(np.unique(expected)) > 40


@pytest.mark.parametrize("mode", MODES)
def test_a_vector_wrapper_of_one_environment_equals_the_single_wrapper(mode: AutoresetMode) -> None:
    actions = random_actions(60, 1)
    env = VectorBonusWrapper(vector(mode, (4,), "box"), seed=1, **QUICK)
    taken = steps(env, actions)
    is_step = np.array([info["_intrinsic_reward"][0] for _, info in taken])
    rewards = [(reward[0], info["intrinsic_reward"][0]) for reward, info in taken]
    single = BonusWrapper(Walk(4, "box"), seed=1, **QUICK)
    single.reset()
    for action, expected in zip(actions[is_step, 0], np.array(rewards)[is_step], strict=True):
        _, reward, over, _, info = single.step(action)
        assert [reward, info["intrinsic_reward"]] == expected.tolist()
        if over:
            single.reset()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("truncates", [False, True])
def test_the_final_observation_is_counted_and_the_first_one_is_not(
    mode: AutoresetMode, truncates: bool
) -> None:
    env = VectorBonusWrapper(vector(mode, (3, 3), truncates=truncates), **COUNTS)
    taken = steps(env, np.zeros((12, 2), int))  # both always go on
    n_transitions = sum(int(info["_raw_reward"].sum()) for _, info in taken)
    visits = n_transitions // 3  # of each of the cells 1, 2 and 3
    assert n_transitions == (18 if mode == AutoresetMode.NEXT_STEP else 24)
    cells = np.arange(4)
    bonus = env.intrinsic.bonus.compute(cells, np.zeros(4, int), cells)
    assert bonus == pytest.approx([1, *[1 / np.sqrt(1 + visits)] * 3])


def test_a_step_that_only_resets_has_no_intrinsic_reward() -> None:
    env = VectorBonusWrapper(vector(AutoresetMode.NEXT_STEP, (1, 9)), **COUNTS)
    taken = steps(env, np.zeros((4, 2), int))
    masks = [info["_intrinsic_reward"].tolist() for _, info in taken]
    assert masks == [[True, True], [False, True]] * 2
    assert [info["intrinsic_reward"][0] for _, info in taken] == pytest.approx(
        [1, 0, 1 / np.sqrt(3), 0]  # the other environment was in cell 1 too
    )
    assert [reward[0] for reward, _ in taken] == [info["intrinsic_reward"][0] for _, info in taken]


@pytest.mark.parametrize("mode", MODES)
def test_raw_rewards_are_those_of_the_environment(mode: AutoresetMode) -> None:
    actions = random_actions(30, len(LENGTHS))
    wrapped, plain = VectorBonusWrapper(vector(mode)), vector(mode)
    plain.reset(seed=0)
    for (reward, info), action in zip(steps(wrapped, actions), actions, strict=True):
        _, raw, terminations, truncations, _ = plain.step(action)
        assert info["raw_reward"].tolist() == raw.tolist()
        assert np.array_equal(reward, raw + info["intrinsic_reward"])
        dones = terminations | truncations
        if mode == AutoresetMode.DISABLED and dones.any():
            plain.reset(options={"reset_mask": dones})


EPISODIC: dict[str, Any] = {**COUNTS, "scope": "episodic"}


@pytest.mark.parametrize("truncates", [False, True])
def test_an_end_of_an_episode_and_a_reset_start_a_new_one(truncates: bool) -> None:
    """In each episode the bonus of s' is phi' inv(C) phi = 1 / (0.1 + visits)."""
    env = BonusWrapper(Walk(2, truncates=truncates), **EPISODIC)
    first, second = 1 / 0.1, 1 / 1.1
    for _ in range(2):  # a complete episode, then one that `reset` ends
        env.reset()
        assert [env.step(a)[4]["intrinsic_reward"] for a in (0, 1, 0)] == pytest.approx(
            [first, second, first]
        )
        env.reset()
        assert env.step(0)[4]["intrinsic_reward"] == pytest.approx(first)

    mode = AutoresetMode.SAME_STEP
    envs = VectorBonusWrapper(vector(mode, (2, 8), truncates=truncates), **EPISODIC)
    taken = steps(envs, np.array([[0, 0], [0, 1], [0, 1]]))
    assert np.array([info["intrinsic_reward"] for _, info in taken]) == pytest.approx(
        np.array([[first, first], [first, second], [first, 1 / 2.1]])
    )
    envs.reset()
    assert envs.step([0, 0])[4]["intrinsic_reward"] == pytest.approx([first, first])


def test_a_reset_of_some_environments_does_not_end_the_episodes_of_others() -> None:
    env = VectorBonusWrapper(vector(AutoresetMode.DISABLED, (9, 9)), **EPISODIC)
    env.reset()
    env.step(np.array([0, 0]))
    env.reset(options={"reset_mask": np.array([True, False])})
    added = env.step(np.array([0, 1]))[4]["intrinsic_reward"]
    assert added == pytest.approx([1 / 0.1, 1 / 1.1])


def test_a_reset_after_the_end_of_an_episode_makes_the_next_step_a_transition() -> None:
    env = VectorBonusWrapper(vector(AutoresetMode.NEXT_STEP, (1, 9)), **COUNTS)
    env.reset()
    env.step(np.array([0, 0]))
    env.reset()
    assert env.step(np.array([0, 0]))[4]["_intrinsic_reward"].tolist() == [True, True]


def test_a_reset_of_some_finished_environments_leaves_the_others_to_autoreset() -> None:
    env = VectorBonusWrapper(vector(AutoresetMode.NEXT_STEP, (1, 1)), **COUNTS)
    env.reset()
    env.step(np.array([0, 0]))
    env.reset(options={"reset_mask": np.array([True, False])})
    assert env.step(np.array([0, 0]))[4]["_intrinsic_reward"].tolist() == [True, False]


def test_overwritten_observations_are_copied() -> None:
    """Both the wrapper and vector environments with copy=False."""
    features = nn.Identity()
    settings = {**COUNTS, "of": "pair", "encoder": features}
    env = BonusWrapper(Reused(), **settings)
    env.reset()
    for action in (0, 0, 0):
        env.step(action)
    sigma = env.intrinsic.bonus.ellipse.sigma  # type: ignore[attr-defined]
    assert sigma[0, 0, 0] == 1 + 0 + 1 + 4  # phi of the cells 0, 1 and 2, before each step

    envs = VectorBonusWrapper(vector(AutoresetMode.SAME_STEP, (9,), "box", copy=False), **settings)
    steps(envs, np.zeros((3, 1), int))
    assert envs.intrinsic.bonus.ellipse.sigma.tolist() == sigma.tolist()  # type: ignore[attr-defined]


def test_features_of_pairs_count_every_action_separately() -> None:
    """The mode of Algorithm 1: phi(s, a) is the feature of s in the block of a."""
    table = nn.Linear(2, 3)
    env = BonusWrapper(Walk(9, "box"), of="pair", encoder=table, **COUNTS)
    env.reset()
    matrices = np.array([np.eye(3), np.eye(3)])
    weight, offset = (x.detach().double().numpy() for x in table.parameters())
    for action in (0, 1, 1, 0, 0):
        phi = weight @ np.full(2, env.unwrapped.cell) + offset  # type: ignore[attr-defined]
        expected = np.sqrt(phi @ np.linalg.inv(matrices[action]) @ phi)
        assert env.step(action)[4]["intrinsic_reward"] == pytest.approx(expected, rel=1e-5)
        matrices[action] += np.outer(phi, phi)


@pytest.mark.parametrize("mode", MODES)
def test_saving_and_loading_is_exact(mode: AutoresetMode) -> None:
    def made() -> VectorBonusWrapper:
        return VectorBonusWrapper(vector(mode, kind="box"), **QUICK)

    actions, (undisturbed, saved, loaded) = random_actions(45, 3), (made() for _ in range(3))
    for env in (undisturbed, saved):
        steps(env, actions)
    loaded.load_state_dict(saved.state_dict())
    later = [
        [info["intrinsic_reward"] for _, info in steps(x, actions)] for x in (undisturbed, loaded)
    ]
    assert np.array_equal(*later)

    first, second = BonusWrapper(Walk(4)), BonusWrapper(Walk(4))
    first.reset()
    first.step(0)
    second.load_state_dict(first.state_dict())
    for single in (first, second):
        single.reset()
    assert first.step(1)[1] == second.step(1)[1]


@pytest.mark.parametrize("bonus", ["contrastive", "elliptical"])
@pytest.mark.parametrize("name", ["contrastive_ucb/DeepSea-v0", "CartPole-v1", "Pendulum-v1"])
@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.filterwarnings("ignore:.*Box observation space")
def test_a_wrapped_environment_passes_the_checker(name: str, bonus: str) -> None:
    env = BonusWrapper(gymnasium.make(name), bonus)
    check_env(env, skip_render_check=True)
    assert env.spec is not None
    assert env.spec.nondeterministic  # since the bonus shrinks, whatever the seed
    assert not gymnasium.spec(name).nondeterministic
    again = env.spec.make()
    assert isinstance(again, BonusWrapper)
    assert type(again.intrinsic.bonus) is type(env.intrinsic.bonus)
    assert again.intrinsic.bonus.n_seen == 0


def test_minigrid_can_be_wrapped() -> None:
    """A Dict with an image, a direction and a mission, which the first wrapper refused."""
    pytest.importorskip("minigrid")
    env = BonusWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))
    env.reset(seed=0)
    rewards = [env.step(0)[4]["intrinsic_reward"] for _ in range(8)]  # turns left twice
    assert rewards[-1] < rewards[3]
    envs = VectorBonusWrapper(
        gymnasium.make_vec(
            "MiniGrid-Empty-5x5-v0", 2, max_steps=3, vector_kwargs={"autoreset_mode": "SameStep"}
        )
    )
    assert all(np.isfinite(reward).all() for reward, _ in steps(envs, random_actions(9, 2)))


def test_processes_of_a_vector_environment() -> None:
    actions = random_actions(12, 2)
    makers = [lambda: Walk(2, "dict"), lambda: Walk(3, "dict")]
    results = []
    for kind in (AsyncVectorEnv, SyncVectorEnv):
        env = VectorBonusWrapper(kind(makers, autoreset_mode="SameStep"))
        results.append([info["intrinsic_reward"] for _, info in steps(env, actions)])
        env.close()
    assert np.array_equal(*results)


def test_wrapping_draws_nothing_from_the_environment() -> None:
    plain, wrapped = cu.DeepSea(4, seed=0), cu.DeepSea(4, seed=0)
    for env in (plain, wrapped):
        env.observation_space.seed(1)
    BonusWrapper(wrapped)
    assert np.array_equal(plain.observation_space.sample(), wrapped.observation_space.sample())


def test_seeds_differ() -> None:
    def rewards(seed: int) -> list[float]:
        env = BonusWrapper(Walk(9, "box"), seed=seed, normalize=False)
        env.reset()
        return [env.step(action)[1] for action in (0, 0, 1, 0)]

    assert rewards(1) == rewards(1) != rewards(2)


def test_copies_with_their_own_counts_are_noticed() -> None:
    def wrapped() -> Any:
        return BonusWrapper(Walk())

    with pytest.warns(UserWarning, match="3 environments are made.*VectorBonusWrapper"):
        inside = SyncVectorEnv([wrapped] * 3)
    with pytest.raises(UserError, match="already have a BonusWrapper; remove it"):
        VectorBonusWrapper(inside)
    SyncVectorEnv([wrapped])  # one copy, no warning


def own_bonus(n_envs: int = 1) -> Bonus:
    return Elliptical(Walk().observation_space, Walk().action_space, n_envs=n_envs)


def odd_mode() -> Any:
    env = vector(AutoresetMode.SAME_STEP)
    env.metadata = {"autoreset_mode": "Sometimes"}
    return env


def nan_observation() -> None:
    env = BonusWrapper(Walk(kind="box"))
    env.reset()
    env.unwrapped.cell = np.nan  # type: ignore[attr-defined]
    env.unwrapped.seen = lambda: np.full(2, np.nan, np.float32)  # type: ignore[attr-defined]
    env.step(1)


def lost_final_observation() -> None:
    env = VectorBonusWrapper(vector(AutoresetMode.NEXT_STEP, (1,)))
    env.reset()
    env._mode = "SameStep"
    env.step(np.array([0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BonusWrapper("CartPole-v1"), r"got 'CartPole-v1'; use gymnasium.make\(id\)"),
        (lambda: BonusWrapper(vector(MODES[0])), "VectorBonusWrapper"),
        (lambda: VectorBonusWrapper(Walk()), r"make_vec\(id, num_envs\), or BonusWrapper"),
        (lambda: BonusWrapper(Walk(), "novelty"), "no bonus is called 'novelty'"),
        (lambda: BonusWrapper(Walk(), 3), "bonus must be one of contrastive.*, got 3"),
        (lambda: BonusWrapper(Walk(), own_bonus(), dim=3), "settings dim have no effect"),
        (lambda: BonusWrapper(Walk(), own_bonus(2)), "n_envs=2 .* make it with n_envs=1"),
        (lambda: VectorBonusWrapper(vector(MODES[0]), own_bonus()), "make it with n_envs=3"),
        (lambda: BonusWrapper(Walk(), features=3), "contrastive has no setting 'features'; "),
        (lambda: BonusWrapper(Walk(), encoder=3), "encoder must be a torch.nn.Module, got 3; make"),
        (lambda: BonusWrapper(Walk(), scale=-1.0), "scale must be at least 0"),
        (lambda: BonusWrapper(Walk()).load_state_dict({}), r"state must be what state_dict\(\)"),
        (lambda: VectorBonusWrapper(odd_mode()), "autoreset mode .* 'Sometimes'; set metadata"),
        (nan_observation, r"NaN or infinite entry; check the environment: entry \[0, .*\] is nan"),
        (lost_final_observation, "without final_obs in info"),
    ],
)
def test_invalid_input_is_an_error_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("made", [BonusWrapper, VectorBonusWrapper])
def test_a_step_before_the_first_reset_is_an_error(made: Any) -> None:
    env = made(Walk() if made is BonusWrapper else vector(MODES[0]))
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(0)


def test_importing_the_package_of_bonuses_is_quick() -> None:
    code = (
        "import sys, contrastive_ucb.bonus as bonus; bonus.BONUS_NAMES;"
        "sys.exit(bool({'torch', 'stable_baselines3'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
