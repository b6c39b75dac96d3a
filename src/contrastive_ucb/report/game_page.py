"""The two sections of the demo's page that are about games: a random one, and the vault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs import LockGame
from contrastive_ucb.report.figures import BAND, curves
from contrastive_ucb.report.game_figures import (
    certificate_figure,
    equilibrium_figure,
    vault_figure,
)
from contrastive_ucb.report.html import Illustration, Section
from contrastive_ucb.report.pair import Pair, learnt_and_exact
from contrastive_ucb.report.read import Group, RunRecord
from contrastive_ucb.report.tables import GAME_COLUMNS, left_out, solved_text, summary_table

AGENT = "contrastive-ulcb"  # whose certificate and policies are shown


@dataclass(frozen=True)
class GamePages:
    """What the games add to the page: their figures by name, and the sections around them."""

    game: list[Group]
    vault: list[Group]
    run: RunRecord  # whose policies are shown
    pairs: tuple[Pair, Pair]  # what it has learnt, and an equilibrium
    pictures: Mapping[str, Figure]

    def sections(self, svgs: Mapping[str, str]) -> list[Section]:
        """The sections, with the pictures as the <svg> elements they became."""
        return [
            _game_section(self.game, self.run, self.pairs, svgs),
            _vault_section(self.vault, svgs),
        ]


def game_pages(game: list[Group], vault: list[Group]) -> GamePages:
    """The figures of the groups that played the random game and the vault."""
    shown = next((group for group in game if group.agent == AGENT and group.finished), None)
    if shown is None:
        raise UserError(
            f"no run of {AGENT} on the random game is finished;"
            " run the demo to its end, it goes on where it stopped"
        )
    run = shown.finished[0]
    pairs = learnt_and_exact(run)
    pictures = {
        "gap": curves(game, "average_gap", title="Average duality gap", ylabel="average gap"),
        "certificate": certificate_figure(shown),
        "equilibrium": equilibrium_figure(*pairs),
        "vault": vault_figure(vault, LockGame.solved_gap),
    }
    return GamePages(game, vault, run, pairs, pictures)


def _game_section(
    groups: list[Group], run: RunRecord, pairs: tuple[Pair, Pair], svgs: Mapping[str, str]
) -> Section:
    names = ", ".join(group.agent for group in groups)
    gap = Illustration(
        svgs["gap"],
        "Figure 4. Average gap: how exploitable the pairs of rounds 1 to k are, on average. The"
        " theorem promises contrastive-ulcb, run with the theorem's own constants, a fall like the"
        " dotted line or steeper, up to logarithms. That is a promise about many rounds, and these"
        f" are few. {BAND}",
        f"Average duality gap over rounds of {names}, on logarithmic axes.",
    )
    certificate = Illustration(
        svgs["certificate"],
        f"Figure 5. The certificate of each round of {AGENT}, V-upper less V-lower, is what the"
        " agent knows. The gap of the same round is what is true. The distance of the lines is the"
        f" price of not knowing the game. {BAND}",
        f"Certificate and true duality gap of each round of {AGENT}, on logarithmic axes.",
    )
    return Section(
        "A zero-sum game: play that nobody can exploit",
        (
            "Each seed has a random game of its own with 6 states, 3 actions a player, 3 steps and"
            " rank 3, and with rewards between -1 and 1 everywhere. It is an easy one, as the"
            " low-rank MDP is: random actions reach everything soon, so agents without a bonus are"
            " often less exploitable here than contrastive-ulcb, which spends rounds on making"
            " sure. What they cannot do is say how well they play: a certificate needs the bonus.",
        ),
        (gap, certificate, _equilibrium(run, pairs, svgs["equilibrium"])),
        summary_table(groups, GAME_COLUMNS),
        _table_caption("Table 3. The random game: means over seeds.", groups),
    )


def _equilibrium(run: RunRecord, pairs: tuple[Pair, Pair], svg: str) -> Illustration:
    learnt, exact = (
        f"the row player {_listed(pair.row)}, the column player {_listed(pair.column)},"
        f" value {pair.value:.3f}, exploitability {max(pair.exploitability, 0):.3f}"
        for pair in pairs
    )
    return Illustration(
        svg,
        f"Figure 6. The first move of the pair that {AGENT} recommends in seed {run.seed}, beside"
        " that of an exact Nash equilibrium of the same game. A cell is the probability of a joint"
        " action; the strip on the right is the row player's own policy, the one below the column"
        " player's. Value and exploitability are those of the whole pair, from the first step to"
        " the last, so a first move that agrees does not make a pair good, and one that differs"
        " does not make it bad.",
        f"Probabilities of the first actions. Learnt: {learnt}. Nash equilibrium: {exact}.",
    )


def _vault_section(groups: list[Group], svgs: Mapping[str, str]) -> Section:
    told = solved_text(groups)
    figure = Illustration(
        svgs["vault"],
        "Figure 7. Above: the exploitability of each round's pair; a thin line is a seed, a thick"
        " one the mean, the dotted one the limit for having solved it. Below: a dot is a seed,"
        " filled if it solved the vault.",
        f"Exploitability over rounds, and the seeds that solved the vault: {told}.",
    )
    return Section(
        "The vault: a lock for two",
        (
            "An intruder with 3 keys (row) and a guard with 3 gates (column) meet at 5 doors, one"
            " after the other. Only the right key together with the right gate leads to the next"
            " door; all else ends the walk. Behind the last door the intruder wins 1. At every door"
            " the wrong gate is a surrender, which costs the guard 0.5; with the right gate and the"
            " wrong key the guard pays a small bribe half of the time.",
            "In an equilibrium the guard surrenders, at the last door if not before, and the"
            " intruder gets 0.5, because both know what lies behind that door. Who has never been"
            " there prefers the bribes and can be exploited: such a guard may lose 1 to one"
            " who knows the keys, and such an intruder gets next to nothing. So both have to learn"
            " about a place where nobody goes who plays well.",
            f"A run has solved the vault when the pair of the round has a gap of at most"
            f" {LockGame.solved_gap:g} in five rounds running. Seeds that did: {told}.",
        ),
        (figure,),
        summary_table(groups, GAME_COLUMNS),
        _table_caption(
            "Table 4. The vault: means over seeds; the median round is that of the seeds that"
            " solved it.",
            groups,
        ),
    )


def _table_caption(title: str, groups: list[Group]) -> str:
    return (
        f"{title} The recommended pair is that of the round with the smallest certificate; agents"
        " without a bonus have none. The bracket holds in a round when the value of an equilibrium"
        f" lies between V-lower and V-upper.{left_out(groups)}"
    )


def _listed(probs: Array) -> str:
    return ", ".join(f"{prob:.2f}" for prob in probs)
