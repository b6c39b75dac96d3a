"""The deep agents by name. Each is a list of differences from SPR's Rainbow, with their sources.

Settings are resolved in this order; later ones override earlier ones:

    agent (for Atari) < single game < kind of frames < bonus preset < settings of the user

SimPLe and PPO are not based on Rainbow; their settings are in `agents/simple/config.py` and
`agents/ppo/config.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil, inf, prod
from typing import Any

from contrastive_ucb.agents.deep.config import (
    BonusConfig,
    ExplorerConfig,
    RainbowConfig,
)
from contrastive_ucb.bonus.config import IntrinsicConfig
from contrastive_ucb.core.checks import check_names, hint
from contrastive_ucb.envs.frames import choose_encoder


@dataclass(frozen=True)
class AlgorithmInfo:
    """Description and publication of an agent."""

    what: str
    source: str


ALGORITHMS = {
    "spr-ucb": AlgorithmInfo("SPR with the UCB bonus", "the paper, l.423-470"),
    "spr": AlgorithmInfo("Rainbow with self-predictive representations", "Schwarzer et al. 2021"),
    "curl": AlgorithmInfo("DER with a contrastive loss on random crops", "Laskin et al. 2020"),
    "drq": AlgorithmInfo("Double DQN with image augmentation", "Kostrikov et al. 2021"),
    "drq-eps": AlgorithmInfo("DrQ with a lower epsilon", "Agarwal et al. 2021"),
    "der": AlgorithmInfo("Rainbow with a higher replay ratio", "van Hasselt et al. 2019"),
    "otr": AlgorithmInfo("OTRainbow: no noisy layers and a replay ratio of 8", "Kielak 2020"),
    "rainbow": AlgorithmInfo("Rainbow as published, for 200 million frames", "Hessel et al. 2018"),
    "simple": AlgorithmInfo("SimPLe: PPO in a learned world model", "Kaiser et al. 2020"),
    "ppo": AlgorithmInfo("PPO with any bonus as intrinsic reward", "Schulman et al. 2017"),
}

# Presets are differences from the defaults of RainbowConfig, which are those of the SPR paper. The
# comment of each line is its source; *.gin are Dopamine's configuration files for Atari 100K.
DOPAMINE: dict[str, Any] = {  # shared by all agents of Dopamine
    "atari": "dopamine",  # atari_lib.py, eval_run_experiment.py
    "encoder": "atari-same",  # networks.py; Flax pads convolutions
    "initializer": "xavier",  # networks.py
    "clip_norm": 0.0,  # no clipping in its optimizer
    "priority": "loss",  # atari_100k_rainbow_agent.py
    "new_priority": "largest",  # atari_100k_rainbow_agent.py
    "importance": (0.5, 0.5),  # atari_100k_rainbow_agent.py
}
# Differences of the published code of SPR, and of SPR-UCB, from the SPR paper.
SPR_RELEASE: dict[str, Any] = {
    "atari": "spr-release",  # rlpyt_atari_env.py
    "cut": "published",  # its replay buffer, see data/nstep.py
    "spr_targets": "lagged",  # models.py: copied before the optimizer step
    "bias_sigma": "outputs",  # models.py, NoisyLinear
    "draws": "independent",  # rlpyt's sum tree
    "priority": "clamped-kl",  # algos.py
}
DER: dict[str, Any] = {
    **DOPAMINE,
    "hidden": 512,  # Dopamine's FullRainbowNetwork
    "streams": 1,  # FullRainbowNetwork: one hidden layer before value and advantage
    "noisy": 0.1,  # van Hasselt et al., table of settings
    "epsilon": (0.0, 0.0),  # van Hasselt et al.: exploration by noise
    "updates_per_step": 1.0,  # DER.gin, update_period
    "first_update": 1600,  # DER.gin, min_replay_history
    "target_every": 2000,  # DER.gin, target_update_period
    "augment": False,  # DER.gin, data_augmentation
    "noise_draws": "per-pass",  # full_rainbow_agent.py
}
DRQ: dict[str, Any] = {
    **DOPAMINE,
    "hidden": 512,  # as DER
    "streams": 1,  # as DER
    "distributional": False,  # DrQ.gin; Huber, Kostrikov et al.
    "noisy": 0.0,  # DrQ.gin
    "priority_exponent": 0.0,  # DrQ.gin, replay_scheme uniform
    "epsilon": (1.0, 0.1),  # DrQ.gin, epsilon_train
    "epsilon_steps": 5000,  # DrQ.gin, epsilon_decay_period
    "eval_epsilon": 0.05,  # DrQ.gin
    "updates_per_step": 1.0,  # DrQ.gin, update_period
    "first_update": 1600,  # DrQ.gin, min_replay_history
    "double_view": "shared",  # atari_100k_rainbow_agent.py: s' is augmented once
    "largest_offset": 7,  # atari_100k_rainbow_agent.py
    "bonus": BonusConfig(feature="hidden"),  # ours: no probabilities without C51
}
SPR: dict[str, Any] = {"spr_weight": 5.0}  # Schwarzer et al., appendix
DEEP_PRESETS: dict[str, dict[str, Any]] = {
    "rainbow": {
        "new_priority": "largest",  # Schaul et al. 2016
        # The rest: Hessel et al., table of hyperparameters.
        "hidden": 512,
        "n_step": 3,
        "learning_rate": 6.25e-5,
        "epsilon": (0.0, 0.0),  # exploration by noise
        "updates_per_step": 0.25,
        "first_update": 20_000,  # 80,000 frames
        "target_every": 2000,  # 32,000 frames
        "augment": False,
    },
    "der": DER,
    "otr": {
        **DER,
        # OTRainbow.gin:
        "n_step": 3,  # update_horizon
        "learning_rate": 6.25e-5,  # that of Rainbow
        "noisy": 0.0,
        "epsilon": (1.0, 0.01),
        "epsilon_steps": 50_000,
        "dueling": False,
        "double": False,
        "updates_per_step": 8.0,  # num_updates_per_train_step
        "first_update": 20_000,  # min_replay_history
        "target_every": 4000,  # target_update_period: 500 steps of 8 updates
    },
    "drq": DRQ,
    "drq-eps": {**DRQ, "epsilon": (1.0, 0.01), "eval_epsilon": 0.001},  # DrQ_eps.gin
    "curl": {  # the code of Laskin et al., which does not build on Dopamine
        **DER,
        "atari": "curl-release",  # env.py
        "initializer": "torch",  # model.py
        "clip_norm": 10.0,  # --norm-clip
        "importance": (0.4, 1.0),  # --priority-weight
        "noise_draws": "per-update",  # agent.py
        "bias_sigma": "outputs",  # model.py
        "encoder": "data-efficient",  # --architecture
        "hidden": 256,  # --hidden-size, per stream
        "streams": 2,  # model.py
        "n_step": 20,  # --multi-step
        "curl_weight": 1.0,  # except in GAME_SETTINGS
    },
    "spr": SPR,
    "spr-ucb": {**SPR, "bonus": BonusConfig(scale=1.0)},
}
# Differences of an agent in single games, by canonical name (code of Laskin et al.).
GAME_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "curl": {name: {"curl_weight": 0.01} for name in ("Boxing", "Freeway", "Pong", "PrivateEye")},
}


@dataclass(frozen=True)
class BonusPreset:
    """A bonus and the learner settings that belong to it.

    learner  settings of every agent
    spr      additional settings of agents with the SPR loss
    vectors  additional settings for vectors, see `FRAME_SETTINGS`
    explorer  makes the settings of the explorer, if there is one
    """

    bonus: BonusConfig
    learner: Mapping[str, Any] = field(default_factory=dict)
    spr: Mapping[str, Any] = field(default_factory=dict)
    vectors: Mapping[str, Any] = field(default_factory=dict)
    explorer: Callable[[], ExplorerConfig] | None = None


EXPLORER_BONUS = "counts"


def default_explorer() -> ExplorerConfig:
    """The explorer of the preset; a function, because checking a bonus imports torch."""
    settings = {"of": "pair", "keys": "exact"}
    intrinsic = IntrinsicConfig(EXPLORER_BONUS, scale=1.0, normalize=False, settings=settings)
    return ExplorerConfig(intrinsic)


BONUSES: dict[str, BonusPreset] = {
    "none": BonusPreset(BonusConfig()),
    # As in the text of the paper.
    "paper": BonusPreset(BonusConfig(scale=1.0)),
    # As in the published code.
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
    # As in Algorithm 1: Sigma sums over visits, and actions are greedy in Q + bonus without noise.
    "algorithm-1": BonusPreset(
        BonusConfig(feature="hidden", pairs="visits", scale=0.1, ridge=0.01, optimistic=True),
        learner={"noisy": 0.0, "epsilon": (0.0, 0.0)},
    ),
    # The learner has no bonus; a second value function explores.
    "explorer": BonusPreset(
        BonusConfig(),
        vectors={
            "hidden": 64,  # the wide layers for vectors are for features of a bonus
            "mlp": (64,),
            "explorer.n_step": 1,  # as n_step
            "explorer.updates": 2,
            "explorer.batch_size": 64,
        },
        explorer=default_explorer,
    ),
}


# Differences from the settings for Atari, for other kinds of frames, by the encoder for their shape
# (`choose_encoder`). All choices are ours.
FRAME_SETTINGS: dict[str, dict[str, Any]] = {
    "atari": {},
    "minatar": {
        "encoder": "auto",
        "hidden": 128,  # as the DQN of the MinAtar paper
        "streams": 1,
        "learning_rate": 2.5e-4,  # as the DQN of the MinAtar paper
        "n_step": 5,  # one step is a whole move; in Atari at most a quarter of one
        "updates_per_step": 1.0,
        "first_update": 1000,
        "bonus.room": 5.0,  # optimistic values exceed returns, which are at most 5 to 20
    },
    "mlp": {  # DeepSea, CartPole and other vectors; network sizes: `frame_settings`
        "encoder": "auto",
        "learning_rate": 1e-3,  # for a network that is a hundred times smaller
        "adam_eps": 1e-8,  # gradients of rare one-hot inputs are far below SPR's 1.5e-4
        "n_step": 1,  # later off-policy actions would hide the value of a new action
        "updates_per_step": 1.0,
        "first_update": 100,  # 10 episodes of DeepSea with N = 10
        "bonus.room": 4.0,  # optimistic values are sums of bonuses, above any return
        "bonus.rebuild_every": 10,  # features change faster with the larger learning rate
    },
}
EXPLORER = ("explorer.", "intrinsic.")  # beginnings of the names of the explorer's settings
# Factor by which runs, and hence schedules, are shorter than Atari's 100,000 steps.
SHORTER = {"atari": 1, "minatar": 10, "mlp": 20}


def configure(
    algo: str,
    settings: Mapping[str, Any],
    frame_shape: tuple[int, ...] | None = None,
    game: str = "",
) -> RainbowConfig:
    """The preset `algo` with settings such as {"n_step": 3, "bonus.preset": "reference"}.

    frame_shape  of the environment, (C, H, W) or (dim,); None: settings for Atari
    game         canonical name of the environment
    """
    if algo not in DEEP_PRESETS:
        raise ValueError(f"no agent is called {algo!r}; {hint(algo, DEEP_PRESETS)}")
    config = _replace(
        RainbowConfig(**DEEP_PRESETS[algo]), GAME_SETTINGS.get(algo, {}).get(game, {})
    )
    defaults = frame_settings(config, frame_shape) if frame_shape else {}
    if (name := settings.get("bonus.preset")) is not None:
        if name not in BONUSES:
            raise ValueError(f"no bonus is called {name!r}; {hint(str(name), BONUSES)}")
        preset = BONUSES[name]
        feature = preset.bonus.feature if config.distributional else "hidden"
        explorer = None if preset.explorer is None else preset.explorer()
        config = replace(config, bonus=replace(preset.bonus, feature=feature), explorer=explorer)
        defaults |= {**preset.learner, **(preset.spr if config.spr_weight > 0 else {})}
        if frame_shape and choose_encoder(frame_shape) == "mlp":
            defaults |= preset.vectors
    user = {key: value for key, value in settings.items() if key != "bonus.preset"}
    configured = _replace(config, {**defaults, **user})
    given = _replace(config, defaults).bonus
    for key, value in user.items():  # bonus.scale=0, which switches the bonus off, is accepted
        name = key.removeprefix("bonus.")
        is_change = name not in (key, "scale") and getattr(given, name) != value
        if is_change and not configured.bonus.is_on:
            raise ValueError(
                f"{key}={value} has no effect without a bonus; set bonus.scale=1 or bonus.preset"
            )
    return configured


def frame_settings(agent: RainbowConfig, frame_shape: tuple[int, ...]) -> dict[str, Any]:
    """Differences from the agent's settings for Atari, for frames of this shape.

    Networks for vectors have half as many units per layer as there are inputs (64 to 512). On a
    one-hot grid, one such layer with two streams leaves room for one feature per cell; with fewer
    units, visits to one cell would reduce the bonus of others.
    """
    kind = choose_encoder(frame_shape)
    settings, shorter = FRAME_SETTINGS[kind], SHORTER[kind]
    # target_every counts updates: with fewer updates per step, it is reduced accordingly.
    fewer = min(1.0, settings.get("updates_per_step", inf) / agent.updates_per_step)
    schedules = {
        "epsilon_steps": ceil(agent.epsilon_steps / shorter),
        "target_every": ceil(agent.target_every * fewer / shorter),
    }
    width = min(max(64, prod(frame_shape) // 2), 512)
    sizes = {"hidden": width, "mlp": (width,)} if kind == "mlp" else {}
    return {**schedules, **settings, **sizes}


def _replace(config: RainbowConfig, settings: Mapping[str, Any]) -> RainbowConfig:
    """The configuration with changed settings; those of a part start with its name."""
    explorer = {key: x for key, x in settings.items() if key.startswith(EXPLORER)}
    if explorer and config.explorer is None:
        key, value = next(iter(explorer.items()))
        raise ValueError(
            f"{key}={value} has no effect without an explorer; set bonus.preset=explorer"
        )
    known = {entry.name for entry in fields(RainbowConfig)} - {"bonus", "explorer"}
    known |= {f"bonus.{entry.name}" for entry in fields(BonusConfig)}
    others = {key: x for key, x in settings.items() if key not in explorer}
    check_names(others, {*known, "bonus.preset"})
    learner = {key: x for key, x in others.items() if not key.startswith("bonus.")}
    bonus = {key[6:]: x for key, x in others.items() if key.startswith("bonus.")}
    if config.explorer is not None:
        learner["explorer"] = config.explorer.changed(explorer)
    return replace(config, **learner, bonus=replace(config.bonus, **bonus))


def suitable_threads(frame_shape: tuple[int, ...]) -> int:
    """The number of threads for these frames: only the Atari networks gain from a second one."""
    return 2 if choose_encoder(frame_shape) == "atari" else 1
