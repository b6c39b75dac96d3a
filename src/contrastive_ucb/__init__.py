"""Contrastive UCB: contrastive self-supervised learning in online reinforcement learning."""

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Importing the environments registers them with Gymnasium.
from contrastive_ucb.envs import (
    ContinuousMDP,
    DeepSea,
    GymObserved,
    Lock,
    LockGame,
    LowRankGame,
    LowRankMDP,
    RichLock,
    RichLockGame,
    RiverSwim,
    TabularGame,
    TabularMDP,
)

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
    from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
    from contrastive_ucb.bonus.online import EllipticalBonus
    from contrastive_ucb.bonus.wrapper import BonusWrapper
    from contrastive_ucb.evaluation.exact import (
        exploitability,
        game_value,
        nash,
        nash_value,
        optimal_value,
        suboptimality,
    )
    from contrastive_ucb.planning.matrix_game import solve_cce, solve_nash
    from contrastive_ucb.runs.deep_agent import SPRUCB, DeepAgent, evaluate
    from contrastive_ucb.runs.result import Result
    from contrastive_ucb.runs.save import load

__version__ = "0.1.0"

__all__ = [
    "GAME_PRESETS",
    "PRESETS",
    "SPRUCB",
    "AgentConfig",
    "BonusWrapper",
    "ContinuousMDP",
    "ContrastiveUCB",
    "ContrastiveULCB",
    "DeepAgent",
    "DeepSea",
    "EllipticalBonus",
    "GameConfig",
    "GymObserved",
    "Lock",
    "LockGame",
    "LowRankGame",
    "LowRankMDP",
    "Result",
    "RichLock",
    "RichLockGame",
    "RiverSwim",
    "TabularGame",
    "TabularMDP",
    "evaluate",
    "exploitability",
    "game_value",
    "load",
    "nash",
    "nash_value",
    "optimal_value",
    "solve_cce",
    "solve_nash",
    "suboptimality",
]

# Imported on first use, because importing torch takes seconds.
_HOMES = {
    "agents.finite.config": ("AgentConfig", "GameConfig"),
    "agents.finite.contrastive_ucb": ("ContrastiveUCB",),
    "agents.finite.contrastive_ulcb": ("ContrastiveULCB",),
    "agents.finite.presets": ("GAME_PRESETS", "PRESETS"),
    "bonus.online": ("EllipticalBonus",),
    "bonus.wrapper": ("BonusWrapper",),
    "evaluation.exact": (
        "exploitability",
        "game_value",
        "nash",
        "nash_value",
        "optimal_value",
        "suboptimality",
    ),
    "runs.deep_agent": ("SPRUCB", "DeepAgent", "evaluate"),
    "planning.matrix_game": ("solve_cce", "solve_nash"),
    "runs.result": ("Result",),
    "runs.save": ("load",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"contrastive_ucb.{home}"), name)
    near = get_close_matches(name, __all__, n=1)
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'contrastive_ucb' has no attribute {name!r}{suggestion}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
