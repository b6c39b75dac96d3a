"""Model errors of tables and of networks that are trained on the same data of a finite MDP.

The tabular agent collects the data. The networks are then trained on its transitions with states as
unit vectors, and with the sampler of the paper also on its labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig, resolve
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.neural_model import (
    kernel_on,
    make_class,
    make_negatives,
    make_recipe,
)
from contrastive_ucb.agents.finite.tabular_model import Representation
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.data.observations import ObservationData, Transitions
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.finite_twin import OneHot, one_hot
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.representation.neural import initial_weights, train

# Tables are fitted to convergence, so the networks have many steps and a small final rate.
THOROUGH = MappingProxyType(
    {
        "density": "uniform",
        "fit_steps": 2000,
        "batch_size": 512,
        "learning_rate": 0.05,
        "final_rate": 0.01,
    }
)


def errors_of_both(mdp: TabularMDP, rounds: int, seed: int, **settings: Any) -> tuple[float, float]:
    """zeta of the tables and of the networks after `rounds` rounds of the tabular agent.

    settings  of the networks, see NeuralConfig, in addition to `THOROUGH`. With sampler="shared"
              all transitions are positives, in the tables against exact negatives; with "paper"
              there is one label per tuple, the same for both.
    """
    env = one_hot(mdp)
    config = resolve(AgentConfig(**{**THOROUGH, **settings}), env)
    labeled = config.sampler == "paper"
    agent = ContrastiveUCB(mdp, seed=seed, negatives="sampled" if labeled else "exact")
    data = ObservationData(mdp.horizon, mdp.n_states, labeled=labeled)
    model = agent.model
    model.representation = _Recorded(model.representation, data, mdp.n_actions)
    for played in agent.session.rounds(rounds):
        last = played.figures
    kernel = _network_kernel(config, env, data, seed)
    return float(last["zeta"][0]), float(agent.session.tracker.errors(kernel)["zeta"][0])


def _network_kernel(config: AgentConfig, env: OneHot, data: ObservationData, seed: int) -> Kernel:
    shape = make_class(config, env)
    negatives, recipe = make_negatives(config, env), make_recipe(config)
    start = initial_weights(shape, env.horizon, stream(seed, "weights"))
    with one_thread():
        fitted = train(start, shape, data, negatives, recipe, stream(seed, "batch"))
        nodes = np.tile(np.eye(env.size), (env.horizon, 1, 1))
        return kernel_on(fitted.gauged(nodes), nodes, nodes)


@dataclass
class _Recorded:
    """A model that also stores the tuples as observations."""

    model: Representation
    data: ObservationData
    n_actions: int

    def add(self, tuples: Tuples) -> None:
        self.model.add(tuples)
        unit = np.eye(self.data.observation.shape[-1])
        state, action = np.divmod(tuples.pair[0], self.n_actions)
        for at, step in enumerate(tuples.step):
            row = slice(at, at + 1)
            rows = (unit[state[row]], action[row], tuples.reward[0, row])
            after, first = unit[tuples.next_state[0, row]], np.array([at < len(self.data.n)])
            self.data.add(int(step), Transitions(*rows, after, first))
            if self.data.labeled:
                drawn = unit[tuples.contrast[0, row]].astype(np.float32)
                self.data.relabel(int(step), 1, tuples.label[0, row] == 1, drawn)

    def fit(self) -> Kernel:
        return self.model.fit()

    def state_of(self, seed: int) -> dict[str, Any]:
        return self.model.state_of(seed)

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.model.load_states(states)
