"""What the learner chooses by: noise, when it is drawn, and values that are no numbers."""

import numpy as np
import pytest
from agents.deep_play import learner, started, train


def test_noise_is_drawn_once_an_update() -> None:
    agent = learner(spr_weight=2.0)
    replay, rng = started(agent)
    calls: list[int] = []
    inner = agent.network.head.sample_noise
    agent.network.head.sample_noise = lambda rng: (  # type: ignore[method-assign]
        calls.append(1) or inner(rng)
    )
    train(agent, replay, 1, rng)  # before it, actions draw too
    calls.clear()
    train(agent, replay, 3, rng)
    assert len(calls) == 3


def test_values_that_are_no_numbers_choose_nothing() -> None:
    agent = learner()
    blind = np.full((1, 4), np.nan, dtype=np.float32)
    for act in (lambda: agent.best(blind), lambda: agent.act(blind[0])):
        with pytest.raises(ArithmeticError, match="all weights are: look at the observation"):
            act()
    agent.network.head.advantage.bias.data[0] = np.inf
    with pytest.raises(ArithmeticError, match=r"head.advantage.bias is not finite after update 0"):
        agent.act(np.ones(4, dtype=np.float32))


def test_before_the_first_update_every_greedy_action_has_its_own_noise() -> None:
    """One draw for a whole warm-up was one deterministic policy, where only noise explores."""
    agent = learner(noisy=2.0, epsilon=(0.0, 0.0))
    seen = np.ones(4, dtype=np.float32)
    assert {agent.act(seen)[0] for _ in range(50)} == {0, 1, 2}
    replay, rng = started(agent)
    train(agent, replay, 1, rng)
    assert len({agent.act(seen)[0] for _ in range(50)}) == 1  # until the next update draws again


def test_gradients_of_two_streams_add_up_in_curl_alone() -> None:
    image: tuple[int, ...] = (1, 40, 40)
    scales = [
        learner(shape=image, streams=2, curl_weight=weight).network.head.gradient_scale
        for weight in (0.0, 1.0)
    ]
    assert scales == [2**-0.5, 1.0]
