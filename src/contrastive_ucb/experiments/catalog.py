"""The experiments by name, in the form that grids have in TOML (see grid.py)."""

from __future__ import annotations

from typing import Any

from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.atari_names import ATARI_100K
from contrastive_ucb.experiments.grid import Grid, grid_of
from contrastive_ucb.experiments.settings import hint

Table = dict[str, Any]
ABOUT = {
    "theory": "Contrastive UCB and its peers on low-rank MDPs, the lock and the deep sea",
    "games": "Contrastive ULCB and its peers on low-rank games and the vault",
    "neural": "networks on the rich lock, the rich vault and an MDP on [0, 1]",
    "deepsea": "SPR and SPR-UCB with its bonuses on DeepSea with N = 10, 14 and 20",
    "minatar": "the same agents on three MinAtar games",
    "comparison": "all agents of the paper's table on three MinAtar games",
    "atari26": "the paper's grid, with two bonuses of SPR-UCB: 26 games, 10 seeds, 100,000 steps",
    "ablation": "the bonus with one switch changed at a time, on DeepSea and MinAtar",
}

CONTROLS = ["no-bonus", "epsilon-greedy", "uniform"]
PEERS = ["contrastive-ucb", "rep-ucb", "lsvi-ucb", "ucbvi", *CONTROLS]
GAME_PEERS = ["contrastive-ulcb", "omni-vi", "midpoint-nash", "tight-cce", "no-bonus", "uniform"]
LOCK = {"n_dead": 20, "n_actions": 5, "horizon": 6}


def _exact(algo: str) -> Table:
    return {f"{algo}, exact": {"algo": algo, "settings": {"negatives": "exact"}}}


THEORY = [
    {
        "env": "lowrank",
        "rounds": 10_000,
        "algo": PEERS,
        "variants": _exact("contrastive-ucb"),
        "settings": {"n_states": 10, "n_actions": 3, "rank": 3, "horizon": 4},
    },
    *(
        {"env": "lock", "rounds": rounds, "algo": ["contrastive-ucb", *CONTROLS], "settings": lock}
        for rounds, lock in ((800, {**LOCK, "negatives": "exact"}), (5000, LOCK))
    ),
    {
        "env": "deepsea",
        "rounds": 2000,
        "algo": "contrastive-ucb",
        "variants": _exact("contrastive-ucb"),
        "settings": {"size": 10},
    },
]
GAMES = [
    *(
        {
            "env": "lowrank-game",
            "rounds": rounds,
            "algo": GAME_PEERS,
            "variants": _exact("contrastive-ulcb"),
            "settings": {"n_states": 6, "n_actions": size, "rank": 3, "horizon": 3},
        }
        for size in (2, 3)
        for rounds in (5000, 500)
    ),
    {
        "env": "lock-game",
        "rounds": 1500,
        "algo": ["contrastive-ulcb", "no-bonus", "uniform"],
        "settings": {"horizon": 5},
    },
]
FRESH_SEED = 100  # the first one on the rich lock: lower ones have been used to choose its settings
RICH_LOCKS = {6: (40, 10), 12: (70, 10), 24: (200, 5)}  # H: rounds at most, seeds
# What the controls have of each H: three times the rounds of the slowest seed with a bonus, seeds.
CONTROLLED = {6: (42, 5), 12: (78, 3), 24: (264, 2)}
RICH_CONTROLS = ["no-bonus", "uniform"]


def _rich_lock(horizon: int, algo: str | list[str], rounds: int, n_seeds: int) -> Table:
    return {
        "env": "rich-lock",
        "rounds": rounds,
        "seeds": list(range(FRESH_SEED, FRESH_SEED + n_seeds)),
        "algo": algo,
        "settings": {"horizon": horizon, "n_actions": 10},
    }


NEURAL = [
    *(_rich_lock(h, "contrastive-ucb", *size) for h, size in RICH_LOCKS.items()),
    *(_rich_lock(h, RICH_CONTROLS, *size) for h, size in CONTROLLED.items()),
    {
        "env": "rich-lock-game",
        "rounds": 60,
        "seeds": 5,
        "algo": ["contrastive-ulcb", *RICH_CONTROLS],
        "settings": {"horizon": 4},
    },
    {
        "env": "continuous",
        "rounds": 3000,
        "algo": "contrastive-ucb",
        "settings": {"rank": 4, "horizon": 4, "n_actions": 3},
    },
]


def _bonus(**switches: Any) -> Table:
    settings = {f"bonus.{key}": value for key, value in switches.items()}
    return {"algo": "spr-ucb", "settings": settings}


MAIN = {  # the agents that are compared with 10 seeds
    "spr": {"algo": "spr"},
    "paper": _bonus(),
    "reference": _bonus(preset="reference"),
    "algorithm-1": _bonus(preset="algorithm-1"),
}
FEATURES = {  # two of them with the features of the other
    "paper, hidden": _bonus(feature="hidden"),
    "algorithm-1, probs": _bonus(preset="algorithm-1", feature="probs"),
}
BONUSES = {**MAIN, **FEATURES}
N_SEEDS = ((10, MAIN), (5, FEATURES))
SWITCHES = {
    **BONUSES,
    "paper, visits": _bonus(pairs="visits"),
    "paper, first step": _bonus(steps="first"),
    "algorithm-1, sampled": _bonus(preset="algorithm-1", pairs="sampled"),
    "algorithm-1, not optimistic": _bonus(preset="algorithm-1", optimistic=False),
    "algorithm-1, never rebuilt": _bonus(preset="algorithm-1", rebuild_every=0),
    "algorithm-1, each bonus once": _bonus(preset="algorithm-1", steps="later"),
    "algorithm-1, ridge 1": _bonus(preset="algorithm-1", ridge=1.0),
}
SEA_STEPS = {"DeepSea-10": 4_000, "DeepSea-14": 6_000, "DeepSea-20": 16_000}
MINATAR = [f"MinAtar/{game}-v1" for game in ("Breakout", "Freeway", "Seaquest")]
MINATAR_STEPS = 10_000
MINATAR_PACE = {"updates_per_step": 0.25}  # a quarter of the usual work
AGENTS = [name for name in ALGORITHMS if name != "simple"]
TABLE = [name for name in ALGORITHMS if name not in ("rainbow", "spr-ucb")]  # of the paper
# The paper's text and its released code describe different bonuses; a score must say which it used.
SPR_UCB = {
    "SPR-UCB (paper)": _bonus(),
    "SPR-UCB (reference)": _bonus(preset="reference"),
}

CATALOG: dict[str, Table] = {
    "theory": {"kind": "solve", "seeds": 10, "part": THEORY},
    "games": {"kind": "solve", "seeds": 10, "part": GAMES},
    "neural": {"kind": "solve", "seeds": 10, "part": NEURAL},
    "deepsea": {
        "kind": "train",
        "part": [
            {"env": env, "steps": steps, "seeds": seeds, "variants": agents}
            for env, steps in SEA_STEPS.items()
            for seeds, agents in N_SEEDS
        ],
    },
    "minatar": {
        "kind": "train",
        "env": MINATAR,
        "steps": MINATAR_STEPS,
        "settings": MINATAR_PACE,
        "part": [{"seeds": seeds, "variants": agents} for seeds, agents in N_SEEDS],
    },
    "comparison": {
        "kind": "train",
        "env": MINATAR,
        "steps": MINATAR_STEPS,
        "seeds": 3,
        "part": [{"algo": AGENTS, "settings": MINATAR_PACE}, {"algo": "simple"}],
    },
    "atari26": {
        "kind": "train",
        "env": list(ATARI_100K),
        "algo": TABLE,
        "variants": SPR_UCB,
        "steps": 100_000,
        "seeds": 10,
    },
    "ablation": {
        "kind": "train",
        "seeds": 5,
        "variants": SWITCHES,
        "part": [
            {"env": "DeepSea-10", "steps": SEA_STEPS["DeepSea-10"]},
            {"env": MINATAR[0], "steps": MINATAR_STEPS, "settings": MINATAR_PACE},
        ],
    },
}


def experiment(name: str) -> Grid:
    """The grid called `name`; an unknown name is an error with the nearest one."""
    if name not in CATALOG:
        raise UserError(f"no experiment is called {name!r}; {hint(name, CATALOG)}")
    return grid_of(CATALOG[name], name)
