"""Ctrl-C in `learn` ends after a whole round, and the agent goes on from there."""

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import contrastive_ucb as cu
from contrastive_ucb.core.runtime import interrupts


@pytest.mark.parametrize(
    "make",
    [
        lambda: cu.ContrastiveUCB(cu.LowRankMDP(4, 2, 2, 2), seed=0),
        lambda: cu.ContrastiveULCB(cu.LowRankGame(4, 2, 2, 2), seed=0),
    ],
    ids=["mdp", "game"],
)
def test_learning_goes_on_after_ctrl_c(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, whole = make(), make()
    fit = agent.model.fit

    def interrupted_fit() -> Any:
        if agent.n_rounds == 6:  # in the middle of round 7
            os.kill(os.getpid(), signal.SIGINT)
        return fit()

    monkeypatch.setattr(agent.model, "fit", interrupted_fit)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(50, progress=False)
    assert agent.n_rounds == 7
    monkeypatch.setattr(agent.model, "fit", fit)
    again = agent.learn(13, progress=False)
    expected = whole.learn(20, progress=False)
    np.testing.assert_array_equal(again.gap[-1], expected.gap[-1])
    assert again.summaries == expected.summaries


def test_the_handler_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as pressed:
        os.kill(os.getpid(), signal.SIGINT)
        assert pressed.is_set()
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_have_none() -> None:
    found = []

    def run() -> None:
        with interrupts() as pressed:
            found.append(pressed.is_set())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]
