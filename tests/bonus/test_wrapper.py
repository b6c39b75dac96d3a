"""The bonus as part of the reward, against explicit counts and against Gymnasium's checker."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import contrastive_ucb as cu
from contrastive_ucb.bonus.wrapper import LARGEST, BonusWrapper


class Cells(gymnasium.Env[Any, Any]):
    """Visits given cells in order and returns the action as reward; actions start at 2."""

    def __init__(self, *cells: int):
        self.cells = cells
        self.observation_space: spaces.Space[Any] = spaces.Discrete(3)
        self.action_space: spaces.Space[Any] = spaces.Discrete(2, start=2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.now = 0
        return self.cells[0], {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.now += 1
        over = self.now == len(self.cells) - 1
        return self.cells[self.now], float(action), over, False, {"own": self.now}


def walk(env: gymnasium.Env[Any, Any], actions: list[int]) -> list[tuple[float, dict[str, Any]]]:
    env.reset(seed=0)
    return [(step[1], step[4]) for step in map(env.step, actions)]


def test_the_bonus_of_a_pair_counts_the_current_visit() -> None:
    env = BonusWrapper(Cells(0, 0, 1, 0, 2), scale=0.5, ridge=0.25)
    steps = walk(env, [2, 2, 3, 2])
    for n, action, (reward, info) in zip([1, 2, 1, 3], [2, 2, 3, 2], steps, strict=True):
        assert info["bonus"] == pytest.approx(0.5 / np.sqrt(0.25 + n), rel=1e-12)
        assert info["raw_reward"] == action
        assert reward == info["raw_reward"] + info["bonus"]
    assert steps[2][1]["own"] == 3
    again = walk(env, [2])[0][1]["bonus"]
    assert again == pytest.approx(0.5 / np.sqrt(0.25 + 4), rel=1e-12)  # a reset forgets nothing
    assert env.bonus.n_seen == 5


class Reused(Cells):
    """Overwrites the previous observation in place."""

    def __init__(self) -> None:
        super().__init__(0, 1, 2)
        self.observation_space = spaces.Box(0, 2, (1,), np.float64)
        self.seen = np.zeros(1)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.seen[0] = super().reset(**options)[0] + 2
        return self.seen, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.seen[0], *rest = super().step(action)
        return (self.seen, *rest)  # type: ignore[return-value]


def test_an_overwritten_observation_is_counted_with_its_old_value() -> None:
    env = BonusWrapper(Reused(), lambda seen: seen, scale=1.0, ridge=1.0)
    assert walk(env, [2])[0][1]["bonus"] == pytest.approx(2 / np.sqrt(1 + 4))
    assert env.bonus.sigma.flatten().tolist() == [1 + 4, 1]


@pytest.mark.parametrize(
    "name", ["contrastive_ucb/DeepSea-v0", "contrastive_ucb/RiverSwim-v0", "CartPole-v1"]
)
@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.filterwarnings("ignore:.*Box observation space")
def test_a_wrapped_environment_passes_the_checker(name: str) -> None:
    env = BonusWrapper(gymnasium.make(name))
    check_env(env, skip_render_check=True)
    assert env.spec is not None
    assert env.spec.nondeterministic  # since the bonus shrinks, whatever the seed
    assert not gymnasium.spec(name).nondeterministic
    again = env.spec.make()
    assert isinstance(again, BonusWrapper)
    assert again.bonus.n_seen == 0


def test_wrapping_draws_nothing_from_the_environment() -> None:
    plain, wrapped = cu.DeepSea(4, seed=0), cu.DeepSea(4, seed=0)
    for env in (plain, wrapped):
        env.observation_space.seed(1)
    BonusWrapper(wrapped)
    assert np.array_equal(plain.observation_space.sample(), wrapped.observation_space.sample())


def test_saving_and_loading_is_exact() -> None:
    """With large features, so that the factor is updated."""
    table = np.random.default_rng(0).normal(size=(3, 200))

    def made() -> BonusWrapper:
        return BonusWrapper(Cells(*([0, 1, 2, 1, 0] * 4)), lambda cell: table[cell])

    undisturbed, saved, loaded = made(), made(), made()
    actions = [2, 3, 3, 2, 2, 3] * 3
    for env in (undisturbed, saved):
        walk(env, actions)
    loaded.load_state_dict(saved.state_dict())
    later = [walk(env, actions) for env in (undisturbed, saved, loaded)]
    assert later[0] == later[1] == later[2]


def test_rebuild_uses_the_current_features() -> None:
    grown = [1.0]
    env = BonusWrapper(Cells(0, 1, 0), lambda cell: np.full(1, grown[0] * (cell + 1)), ridge=1.0)
    walk(env, [2, 3])
    assert env.bonus.sigma.flatten().tolist() == [1 + 1, 1 + 4]
    grown[0] = 3.0
    env.rebuild([0, 1, 0], [2, 3, 2])
    assert env.bonus.sigma.flatten().tolist() == [1 + 9 + 9, 1 + 36]
    assert env.bonus.n_seen == 3


def picture() -> Cells:
    env = Cells(0, 1)
    env.observation_space = spaces.Box(0, 255, (LARGEST + 1,), np.uint8)
    return env


def words() -> Cells:
    env = Cells(0, 1)
    env.observation_space = spaces.Sequence(spaces.Discrete(2))
    return env


def steered() -> Cells:
    env = Cells(0, 1)
    env.action_space = spaces.Box(-1, 1)
    return env


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BonusWrapper(picture()), "4097 entries, more than 4096; pass features="),
        (lambda: BonusWrapper(words()), "cannot be flattened; pass features="),
        (lambda: BonusWrapper(steered()), "needs Discrete actions; wrap"),
        (lambda: BonusWrapper(Cells(0, 1), lambda cell: np.eye(2)), r"shape \(2, 2\) for one"),
        (lambda: BonusWrapper(Cells(0, 1), scale=-1.0), "scale must be at least 0"),
    ],
)
def test_invalid_input_is_an_error_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_step_before_the_first_reset_is_an_error() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        BonusWrapper(Cells(0, 1)).step(2)
