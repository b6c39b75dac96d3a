"""The page of `make demo`: regret and model error on a low-rank MDP, and the lock."""

from __future__ import annotations

import platform
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

from contrastive_ucb.errors import UserError
from contrastive_ucb.report.figures import BAND, curves, lock_figure, save_png, to_svg
from contrastive_ucb.report.html import Illustration, Section, page
from contrastive_ucb.report.read import Group, read_groups
from contrastive_ucb.report.tables import solved_seeds, summary_table
from contrastive_ucb.training.files import write_atomically

SUITE = "demo"
TITLE = "Contrastive UCB: learning where to look"

INTRO = (
    "An agent walks through a world in steps: it sees a state, takes an action, earns a reward and"
    " lands in a next state that is drawn at random. Such a world is a Markov decision process, or"
    " MDP. Here every walk has the same number of steps, H, and V* is the most that any policy"
    " earns on average in one walk.",
    "An MDP has low rank when the chance of a next state is a product of two short vectors,"
    " P(s' | s, a) = φ(s, a) · ψ(s'), with d numbers each. There may be many states, but d numbers"
    " then say all that a state and an action mean for what comes next. Nobody tells the agent"
    " φ or ψ.",
    "Contrastive UCB learns both from a guessing game: it is shown a state, an action and a next"
    " state, and has to say whether the next state really followed or was drawn from a fixed"
    " distribution P⁻. Whoever plays this game as well as possible knows how much likelier than"
    " under P⁻ each next state is, and therefore knows the model. The learnt φ also shows what is"
    " still unknown: directions that the data hardly cover get a bonus, the agent plans as if the"
    " bonus were reward, goes there, and the bonus shrinks.",
    "The lock is a world in which this matters. In a good state one action keeps the agent among"
    " the good states, and every other action leads to dead states for ever; only the right action"
    " at the last step pays 1, while a wrong action pays a small bribe half of the time. With A"
    " actions, a walk of guesses opens the lock with probability 1 / A to the power H, and until"
    " that has happened the bribe is all the reward there is to learn from.",
)

PEERS = {
    "contrastive-ucb": "Algorithm 1 of the paper, which this page is about.",
    "rep-ucb": "like contrastive-ucb, with features learnt by maximum likelihood.",
    "lsvi-ucb": "is given the true φ, which contrastive-ucb has to learn.",
    "ucbvi": "uses no features: it counts transitions, and its bonus shrinks with the visits.",
    "no-bonus": "learns a model as contrastive-ucb does and trusts it: there is no bonus.",
    "epsilon-greedy": "like no-bonus, with one action in ten at random while it gathers data.",
    "uniform": "gathers data with random actions only, and plans without a bonus.",
}

NOTES = (
    "A round is not one walk: the algorithm walks H times a round, once for every step at which it"
    " gathers data. Multiply rounds by H to compare with methods that count episodes; the tables"
    " have both.",
    "Unless a run was told otherwise, the agents know the reward of the low-rank MDP and learn only"
    " its transitions, as in the paper. In the lock the known reward would give the combination"
    " away, so there they learn the reward too.",
    "All agents gather data alike: a walk ends with two random actions (with one, if the MDP ends"
    " first), which already explores one step ahead. On easy MDPs this may be enough, and uniform"
    " and no-bonus do well. The lock is here because it is not easy.",
    "What was never tried is predicted to lead where P⁻ leads, that is, anywhere. This is a mild"
    " optimism of its own, which agents without a bonus enjoy as well. Only lsvi-ucb, which fits"
    " values to its features, does without it.",
    "The model error of each agent is measured where its own data lie, as in the theorem. An agent"
    " that stays in one corner can have a small error and know little of the rest.",
    "Gap, regret and model error are exact sums over the true MDP, not estimates from sample"
    " walks.",
)


def write_demo_page(
    root: Path, out: Path, commands: list[str], folders: Collection[Path] | None = None
) -> Path:
    """Write the page to `out` and its figures as PNG beside it; the same runs, the same bytes.

    root       the run store, with the suite "demo" and its tasks lowrank-* and lock-*
    commands   what was typed to get here, shown as it is
    folders    the task folders to show (<root>/demo/<agent>/<task>-<hash8>); all by default
    """
    groups = [g for g in read_groups(root, SUITE) if folders is None or g.folder in folders]
    lowrank, lock = _of_task(groups, "lowrank-", root), _of_task(groups, "lock-", root)
    pictures = {
        "regret": curves(
            lowrank, "average_regret", title="Average regret", ylabel="average gap to $V^*$"
        ),
        "model_error": curves(
            lowrank, "zeta", title="Model error", ylabel="model error $\\zeta_k$"
        ),
        "lock": lock_figure(lock),
    }
    svgs = {name: to_svg(figure) for name, figure in pictures.items()}
    text = page(TITLE, _sections(lowrank, lock, svgs, commands), _versions())
    out.parent.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        save_png(figure, out.parent / f"{name}.png")
    write_atomically(out, text)
    return out


def _of_task(groups: list[Group], prefix: str, root: Path) -> list[Group]:
    chosen = [group for group in groups if group.folder.name.startswith(prefix)]
    if not any(group.finished for group in chosen):
        raise UserError(
            f"no run of {prefix}* is finished under {root / SUITE};"
            " run the demo to its end, it goes on where it stopped"
        )
    return chosen


def _sections(
    lowrank: list[Group], lock: list[Group], svgs: dict[str, str], commands: list[str]
) -> list[Section]:
    present = {group.agent for group in [*lowrank, *lock]}
    who = tuple(f"{agent}: {text}" for agent, text in PEERS.items() if agent in present)
    return [
        Section("What this is", INTRO),
        Section("Who takes part", notes=who),
        _lowrank_section(lowrank, svgs),
        _lock_section(lock, svgs),
        Section("How to read this", notes=NOTES),
        Section("Make it yourself", commands=tuple(commands)),
    ]


def _lowrank_section(groups: list[Group], svgs: dict[str, str]) -> Section:
    names = ", ".join(group.agent for group in groups)
    regret = Illustration(
        svgs["regret"],
        "Figure 1. Average regret: how much less than V* the policies of rounds 1 to k earn, on"
        " average. The theorem promises contrastive-ucb, run with the theorem's own constants, a"
        " fall like the dotted line or steeper, up to logarithms."
        f" {BAND}",
        f"Average regret over rounds of {names}, on logarithmic axes.",
    )
    error = Illustration(
        svgs["model_error"],
        "Figure 2. Model error ζ: the squared distance (L1) between learnt and true"
        " probabilities of the next state, averaged over the states and actions that the agent's"
        " own data come from, at the worst step. The theory promises contrastive-ucb the"
        f" dotted slope or a steeper one, up to logarithms. {BAND}",
        f"Model error over rounds of {names}, on logarithmic axes.",
    )
    return Section(
        "A low-rank MDP: learning the model, and what it costs",
        (
            "Each seed has a random MDP of its own with 10 states, 3 actions, 4 steps and rank 3,"
            " in which only a few actions of the last step pay. It is an easy one: random actions"
            " reach everything soon, so agents without a bonus do well here, often better than"
            " contrastive-ucb, which spends rounds on making sure. The price of the paper's"
            " sampler, which wastes half of the transitions, shows in the distance to rep-ucb.",
        ),
        figures=(regret, error),
        table=summary_table(groups),
        table_caption=_table_caption("Table 1. The low-rank MDP: means over seeds.", groups),
    )


def _lock_section(groups: list[Group], svgs: dict[str, str]) -> Section:
    counts = {group.agent: "{} of {}".format(*solved_seeds(group)) for group in groups}
    told = "; ".join(f"{agent} in {count}" for agent, count in counts.items())
    figure = Illustration(
        svgs["lock"],
        "Figure 3. Above: what the policy of each round would earn, as a part of V*; a thin line"
        " is a seed, a thick one the mean. Below: a dot is a seed, filled if it opened the lock.",
        f"Value of the policies over rounds, and the seeds that opened the lock: {told}.",
    )
    return Section(
        "The lock: exploring on purpose",
        (
            "The lock has 6 steps, 5 actions and 20 disguises of the dead state; the agents use"
            " exact negatives and have to learn the reward. An agent has opened the lock"
            " when its policy earns at least 95 % of V* in five rounds"
            f" running. Seeds that did: {told}.",
        ),
        (figure,),
        summary_table(groups),
        _table_caption(
            "Table 2. The lock: means over seeds; the median round is that of the seeds that opened"
            " it.",
            groups,
        ),
    )


def _table_caption(title: str, groups: list[Group]) -> str:
    text = (
        f"{title} A round counts as optimistic when the agent's own estimate of"
        " what it can earn is at least V*."
    )
    unfinished = [run for group in groups for run in group.runs if not run.finished]
    if unfinished:
        listed = ", ".join(f"{run.spec.agent} seed {run.seed}" for run in unfinished)
        text += f" Not finished, and left out: {listed}."
    return text


def _versions() -> str:
    parts = [f"contrastive-ucb {version('contrastive-ucb')}", f"Python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("numpy", "torch", "matplotlib")]
    return "Made with " + ", ".join(parts) + "."
