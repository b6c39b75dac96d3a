"""Settings of networks and tables, tables of neural agents, and the default model error."""

from typing import Any

import numpy as np
import pytest
from agents.neural_play import QUICK, lock_agent, vault_agent

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.envs import LowRankGame, LowRankMDP


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
def test_a_neural_agent_has_no_table_of_its_policy(make: Any) -> None:
    agent = make()
    agent.round()
    names = ["policies"] if make is vault_agent else ["policies", "policy"]
    for name in names:
        with pytest.raises(ValueError, match=rf"agent\.{name} has no table.*agent\.policy_at"):
            getattr(agent, name)
    assert agent.policy_at(0, np.zeros((2, agent.envs[0].size))).shape[0] == 2


CHANGED: dict[str, Any] = {"hidden": 5, "sampler": "paper", "uniform_share": 0.2, "n_negatives": 7}


@pytest.mark.parametrize("name", CHANGED)
def test_tables_reject_settings_of_networks(name: str) -> None:
    changed = {name: CHANGED[name]}
    for make in (
        lambda: ContrastiveUCB(LowRankMDP(3, 2, 2, 2), **changed),
        lambda: ContrastiveULCB(LowRankGame(3, 2, 2, 2), **changed),
    ):
        with pytest.raises(ValueError, match=rf"{name} = .* is for networks and has no effect"):
            make()


def test_networks_on_a_finite_mdp_report_the_model_error_by_default() -> None:
    quick = {name: value for name, value in QUICK.items() if name != "n_draws"}
    for agent in (
        ContrastiveUCB(LowRankMDP(5, 2, 2, 2), representation="neural", **quick),
        ContrastiveULCB(LowRankGame(5, 2, 2, 2), representation="neural", **quick),
    ):
        result = agent.learn(1, progress=False)
        assert agent.config.density == "uniform"
        assert agent.config.n_draws == 515  # every one of the 5 states equally often
        assert np.isfinite(result.zeta).all()
