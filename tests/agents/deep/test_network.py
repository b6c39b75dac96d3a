"""The network of the deep agents: shapes, Q values and parameter groups."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import torch
from agents.deep_play import SMALL

from contrastive_ucb.agents.deep.network import Network
from contrastive_ucb.agents.deep.presets import configure


def make(**settings: object) -> Network:
    config = replace(SMALL, **settings)  # type: ignore[arg-type]
    return Network((4,), 3, config, (-2.0, 2.0), np.random.default_rng(0))


def test_spr_on_atari_has_the_published_shapes() -> None:
    network = Network((4, 84, 84), 6, configure("spr", {}), (-10, 10), np.random.default_rng(0))
    latent = network.encoder(torch.linspace(0, 1, 2 * 4 * 84 * 84).view(2, 4, 84, 84))
    assert latent.shape == (2, 64, 7, 7)
    assert network.head(latent).shape == (2, 6, 51)
    assert network.head.projection(latent).shape == (2, 512)
    assert network.support[[0, 25, 50]].tolist() == pytest.approx([-10, 0, 10], abs=1e-6)
    assert latent.detach().flatten(1).aminmax(dim=1).max.tolist() == [1, 1]


def test_every_parameter_is_in_one_group_and_the_predictor_is_not_clipped() -> None:
    network = make(spr_weight=1.0)
    groups = network.groups(10.0)
    together = [id(x) for group, _ in groups for x in group]
    assert sorted(together) == sorted(id(x) for x in network.parameters())
    assert [limit for _, limit in groups] == [10.0, 10.0, inf]
    assert len(make().groups(10.0)) == 1
