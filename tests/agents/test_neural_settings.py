"""Settings of networks and tables, tables of neural agents, and the default model error."""

from typing import Any

import numpy as np
import pytest
from agents.neural_play import QUICK, lock_agent, vault_agent

from contrastive_ucb.agents.finite.config import (
    TABULAR_ONLY,
    AgentConfig,
    NeuralConfig,
    check_tabular,
)
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.envs import Lock, LowRankGame, LowRankMDP
from contrastive_ucb.envs.rich_lock import RichLock


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
def test_a_neural_agent_has_no_table_of_its_policy(make: Any) -> None:
    agent = make()
    agent.round()
    names = ["policies"] if make is vault_agent else ["policies", "policy"]
    for name in names:
        with pytest.raises(ValueError, match=rf"agent\.{name} has no table.*agent\.policy_at"):
            getattr(agent, name)
    assert agent.policy_at(0, np.zeros((2, agent.envs[0].size))).shape[0] == 2


def test_a_tabular_agent_has_a_table_of_its_policy() -> None:
    agent = ContrastiveUCB(LowRankMDP(3, 2, 2, 2), seed=0)
    agent.round()
    np.testing.assert_array_equal(agent.policies[0], agent.policy)
    game = ContrastiveULCB(LowRankGame(3, 2, 2, 2), seed=0)
    game.round()
    assert [part.shape for part in game.policies] == [(2, 3, 2), (2, 3, 2)]


CHANGED: dict[str, Any] = {
    "hidden": 5,
    "harmonics": 2,
    "phi_head": "softplus",
    "psi_head": "softplus",
    "standardise": "on",
    "sampler": "paper",
    "density": "gaussian",
    "uniform_share": 0.2,
    "negative_center": 1.0,
    "negative_scale": 2.0,
    "foresee_reward": "on",
    "n_draws": 7,
    "fit_steps": 7,
    "epochs": 2.0,
    "batch_size": 7,
    "n_negatives": 7,
    "learning_rate": 0.1,
    "final_rate": 0.5,
    "weight_decay": 0.5,
    "warm_start": "on",
}


def test_every_setting_of_networks_is_changed_below() -> None:
    own = NeuralConfig.__dataclass_fields__.keys() - {"representation", "trajectories"}
    assert own == CHANGED.keys()
    check_tabular(vars(AgentConfig(trajectories=5)))


@pytest.mark.parametrize("name", CHANGED)
def test_tables_reject_settings_of_networks(name: str) -> None:
    changed = {name: CHANGED[name]}
    for make in (
        lambda: ContrastiveUCB(LowRankMDP(3, 2, 2, 2), **changed),
        lambda: ContrastiveULCB(LowRankGame(3, 2, 2, 2), **changed),
    ):
        with pytest.raises(ValueError, match=rf"{name} = .* is for networks and has no effect"):
            make()


@pytest.mark.parametrize(
    "changed",
    [
        {"sweeps": 50},
        {"pseudo": 3.0},
        {"reseed_every": 0},
        {"class_size": 3},
        {"failure": 0.2},
        {"constant": 2.0},
    ],
    ids=str,
)
def test_networks_reject_settings_of_tables(changed: dict[str, Any]) -> None:
    [(name, value)] = changed.items()
    assert name in TABULAR_ONLY
    with pytest.raises(ValueError, match=f"{name} = {value} needs tables; observations take"):
        ContrastiveUCB(RichLock(3, 2), **changed)
    with pytest.raises(ValueError, match=f"{name} = {value} needs tables"):
        ContrastiveUCB(Lock(3, 2, 2), representation="neural", **changed)


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
