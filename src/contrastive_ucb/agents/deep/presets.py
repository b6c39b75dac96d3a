"""The deep agents by name: each is Rainbow with differences, and each difference has its source.

Settings come in layers, each over the ones before:

    the agent, made for Atari < the game < the kind of frames < the preset of the bonus < yours

DER, OTR and DrQ are in Dopamine's settings for Atari 100K. SimPLe is no Rainbow; its settings are
in `simple_config.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil, inf, prod
from typing import Any

from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig
from contrastive_ucb.core.checks import check_names, hint
from contrastive_ucb.representation.encoder_shapes import choose_encoder


@dataclass(frozen=True)
class About:
    """What an agent is, and where it comes from."""

    what: str
    source: str


ALGORITHMS = {
    "spr-ucb": About("SPR with the UCB bonus", "the paper, l.423-470"),
    "spr": About("Rainbow with self-predictive representations", "Schwarzer et al. 2021"),
    "curl": About("DER with a contrastive loss on random crops", "Laskin et al. 2020"),
    "drq": About("Double DQN with image augmentation", "Kostrikov et al. 2021"),
    "drq-eps": About("DrQ with a lower epsilon", "Agarwal et al. 2021"),
    "der": About("Rainbow with a higher replay ratio", "van Hasselt et al. 2019"),
    "otr": About("OTRainbow: no noisy layers and a replay ratio of 8", "Kielak 2020"),
    "rainbow": About("Rainbow as published, for 200 million frames", "Hessel et al. 2018"),
    "simple": About("SimPLe: PPO in a learned world model", "Kaiser et al. 2020"),
}
# The defaults of RainbowConfig are SPR's, from its appendix. Names in .gin are Dopamine's files.
DOPAMINE: dict[str, Any] = {  # what all of its agents share, from its code
    "atari": "dopamine",  # atari_lib.py, eval_run_experiment.py
    "encoder": "atari-same",  # networks.py; Flax pads convolutions
    "initializer": "xavier",  # networks.py
    "clip_norm": 0.0,  # its optimizer does not clip
    "priority": "loss",  # atari_100k_rainbow_agent.py; what follows too
    "new_priority": "largest",
    "importance": (0.5, 0.5),
}
# Where the published code of SPR, and of SPR-UCB, differs from the SPR paper.
SPR_RELEASE: dict[str, Any] = {
    "atari": "spr-release",  # rlpyt_atari_env.py
    "cut": "published",  # its replay buffer, see data/nstep.py
    "spr_targets": "lagged",  # models.py: copied before the optimizer step
    "bias_sigma": "outputs",  # models.py, NoisyLinear
    "draws": "independent",  # rlpyt's sum tree
    "priority": "clamped-kl",  # algos.py
}
DER = RainbowConfig(
    **DOPAMINE,
    hidden=512,  # Dopamine's FullRainbowNetwork
    streams=1,  # the same: one hidden layer before value and advantage
    noisy=0.1,  # van Hasselt et al., table of settings
    epsilon=(0.0, 0.0),  # the same: noise explores
    updates_per_step=1.0,  # DER.gin, update_period
    first_update=1600,  # DER.gin, min_replay_history
    target_every=2000,  # DER.gin, target_update_period
    augment=False,  # DER.gin, data_augmentation
    noise_draws="per-pass",  # full_rainbow_agent.py
)
DRQ = RainbowConfig(
    **DOPAMINE,
    hidden=512,  # as DER's
    streams=1,
    distributional=False,  # DrQ.gin; Huber, Kostrikov et al.
    noisy=0.0,  # DrQ.gin
    priority_exponent=0.0,  # DrQ.gin, replay_scheme uniform
    epsilon=(1.0, 0.1),  # DrQ.gin, epsilon_train
    epsilon_steps=5000,  # DrQ.gin, epsilon_decay_period
    eval_epsilon=0.05,  # DrQ.gin
    updates_per_step=1.0,  # DrQ.gin, update_period
    first_update=1600,  # DrQ.gin, min_replay_history
    double_view="shared",  # atari_100k_rainbow_agent.py: s' is augmented once
    largest_offset=7,  # the same
    bonus=BonusConfig(feature="hidden"),  # ours: there are no probabilities
)
SPR = RainbowConfig(spr_weight=5.0)  # Schwarzer et al., appendix
DEEP_PRESETS: dict[str, RainbowConfig] = {
    "rainbow": RainbowConfig(
        new_priority="largest",  # Schaul et al.
        # Hessel et al., table of settings:
        hidden=512,
        n_step=3,
        learning_rate=6.25e-5,
        epsilon=(0.0, 0.0),  # noise explores
        updates_per_step=0.25,
        first_update=20_000,  # 80,000 frames
        target_every=2000,  # 32,000 frames
        augment=False,  # theirs are plain frames
    ),
    "der": DER,
    "otr": replace(
        DER,
        n_step=3,  # OTRainbow.gin, update_horizon; what follows is there too
        learning_rate=6.25e-5,  # "original Rainbow"
        noisy=0.0,
        epsilon=(1.0, 0.01),
        epsilon_steps=50_000,
        dueling=False,
        double=False,
        updates_per_step=8.0,  # num_updates_per_train_step
        first_update=20_000,  # min_replay_history
        target_every=4000,  # target_update_period is 500 steps, of 8 updates each
    ),
    "drq": DRQ,
    "drq-eps": replace(DRQ, epsilon=(1.0, 0.01), eval_epsilon=0.001),  # DrQ_eps.gin
    "curl": replace(  # Laskin et al., their release, which does not build on Dopamine
        DER,
        atari="curl-release",  # env.py
        initializer="torch",
        clip_norm=10.0,  # --norm-clip
        importance=(0.4, 1.0),  # --priority-weight
        noise_draws="per-update",  # agent.py
        bias_sigma="outputs",  # model.py
        encoder="data-efficient",  # its --architecture
        hidden=256,  # --hidden-size, of each stream
        streams=2,
        n_step=20,  # --multi-step
        curl_weight=1.0,  # 1 but for the games below
    ),
    "spr": SPR,
    "spr-ucb": replace(SPR, bonus=BonusConfig(scale=1.0)),
}
# What an agent does otherwise in some games, by the one name that each of them has.
GAMES: dict[str, dict[str, dict[str, Any]]] = {
    "curl": {name: {"curl_weight": 0.01} for name in ("Boxing", "Freeway", "Pong", "PrivateEye")},
}


@dataclass(frozen=True)
class BonusPreset:
    """A bonus with the settings of the learner that belong to it.

    learner  for every agent
    spr      for agents with the SPR loss, in addition
    """

    bonus: BonusConfig
    learner: Mapping[str, Any] = field(default_factory=dict)
    spr: Mapping[str, Any] = field(default_factory=dict)


BONUSES: dict[str, BonusPreset] = {
    "none": BonusPreset(BonusConfig()),
    # What the paper says.
    "paper": BonusPreset(BonusConfig(scale=1.0)),
    # What the published code does.
    "reference": BonusPreset(
        BonusConfig(
            pairs="window",
            action="previous",
            scale=1.0,
            ridge=1e-5,
            cut="published",
            noisy=True,
            numerics="published",
        ),
        learner={"cut": "published"},
        spr=SPR_RELEASE,
    ),
    # What Algorithm 1 does: visits are counted, and Q + bonus is acted on, without other noise.
    "algorithm-1": BonusPreset(
        BonusConfig(feature="hidden", pairs="visits", scale=0.1, ridge=0.01, optimistic=True),
        learner={"noisy": 0.0, "epsilon": (0.0, 0.0)},
    ),
}


@dataclass(frozen=True)
class Family:
    """What differs for frames that are not Atari's."""

    settings: Mapping[str, Any]
    shorter: int = 1  # by this much than Atari's 100,000 steps are runs, and schedules with them

    def differences(self, agent: RainbowConfig) -> dict[str, Any]:
        # Target networks are copied after so many updates: where there are fewer, after fewer.
        fewer = min(1.0, self.settings.get("updates_per_step", inf) / agent.updates_per_step)
        schedules = {
            "epsilon_steps": ceil(agent.epsilon_steps / self.shorter),
            "target_every": ceil(agent.target_every * fewer / self.shorter),
        }
        return {**schedules, **self.settings}


# By the encoder that the shape of the frames asks for.
FAMILIES: dict[str, Family] = {
    "atari": Family({}),
    "minatar": Family(
        {
            "encoder": "auto",
            "hidden": 128,  # in all, as MinAtar's own DQN
            "streams": 1,
            "learning_rate": 2.5e-4,  # as MinAtar's own, whose network is as small
            "n_step": 5,  # one step is a whole move, in Atari a quarter or less of one
            "updates_per_step": 1.0,
            "first_update": 1000,
            "bonus.room": 5.0,  # see below; games are worth 5 to 20
        },
        shorter=10,
    ),
    "mlp": Family(  # DeepSea, CartPole and other vectors: minutes of training. See `family`
        {
            "encoder": "auto",
            "learning_rate": 1e-3,  # a network a hundred times smaller
            "adam_eps": 1e-8,  # gradients of rare one-hot inputs are far below SPR's 1.5e-4
            "n_step": 1,  # old actions behind a new one would hide what it can lead to
            "updates_per_step": 1.0,
            "first_update": 100,  # ten dives of DeepSea-10 instead of 200
            "bonus.room": 4.0,  # an optimist's value is a sum of bonuses, which is above any return
            "bonus.rebuild_every": 10,  # features move faster by as much as the learning rate
        },
        shorter=20,
    ),
}


def configure(
    algo: str,
    settings: Mapping[str, Any],
    frame_shape: tuple[int, ...] | None = None,
    game: str = "",
) -> RainbowConfig:
    """The preset `algo` with settings such as {"n_step": 3, "bonus.preset": "reference"}.

    frame_shape  of the environment, (C, H, W) or (dim,), whose family has settings of its own;
                 without it they are Atari's
    game         the one name of the environment
    """
    if algo not in DEEP_PRESETS:
        raise ValueError(f"no agent is called {algo!r}; {hint(algo, DEEP_PRESETS)}")
    config = _with(DEEP_PRESETS[algo], GAMES.get(algo, {}).get(game, {}))
    layers = family(config, frame_shape) if frame_shape else {}
    if (name := settings.get("bonus.preset")) is not None:
        if name not in BONUSES:
            raise ValueError(f"no bonus is called {name!r}; {hint(str(name), BONUSES)}")
        feature = BONUSES[name].bonus.feature if config.distributional else "hidden"
        config = replace(config, bonus=replace(BONUSES[name].bonus, feature=feature))
        layers |= BONUSES[name].learner
        layers |= BONUSES[name].spr if config.has_spr else {}
    own = {key: value for key, value in settings.items() if key != "bonus.preset"}
    found = _with(config, {**layers, **own})
    _check_effect(own, _with(config, layers).bonus, found.bonus)
    return found


def _check_effect(own: Mapping[str, Any], before: BonusConfig, bonus: BonusConfig) -> None:
    """Stop at a setting of the bonus if there is no bonus.

    own  settings that were given; those equal to the setting `before` are accepted, and so is
         bonus.scale=0, which switches the bonus off
    """
    for key, value in own.items():
        name = key.removeprefix("bonus.")
        if name not in (key, "scale") and getattr(before, name) != value and not bonus.is_on:
            raise ValueError(
                f"{key}={value} has no effect without a bonus; set bonus.scale=1 or bonus.preset"
            )


def family(agent: RainbowConfig, frame_shape: tuple[int, ...]) -> dict[str, Any]:
    """What differs from the agent's settings for Atari with frames of this shape.

    Networks for vectors are sized by them. One layer tells the cells of a one-hot grid apart, and
    two streams of half as many units as there are cells give each cell room for a feature of its
    own: with fewer, the bonus of a cell sinks with visits to others.
    """
    name = choose_encoder(frame_shape)
    differences = FAMILIES[name].differences(agent)
    if name != "mlp":
        return differences
    width = min(max(64, prod(frame_shape) // 2), 512)
    return {**differences, "hidden": width, "mlp": (width,)}


def _with(config: RainbowConfig, settings: Mapping[str, Any]) -> RainbowConfig:
    """The configuration with settings by name, those of the bonus behind "bonus."."""
    known = {one.name for one in fields(RainbowConfig)} - {"bonus"}
    known |= {f"bonus.{one.name}" for one in fields(BonusConfig)}
    check_names(settings, {*known, "bonus.preset"})
    own = {key: value for key, value in settings.items() if not key.startswith("bonus.")}
    inner = {key[6:]: value for key, value in settings.items() if key.startswith("bonus.")}
    return replace(config, **own, bonus=replace(config.bonus, **inner))


def suitable_threads(frame_shape: tuple[int, ...]) -> int:
    """The number of threads for these frames: only the Atari networks gain from a second one."""
    return 2 if choose_encoder(frame_shape) == "atari" else 1
