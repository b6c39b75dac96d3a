"""The paper's table: the numbers of the data, the best two in bold, runs of our own apart."""

import re

import numpy as np
import pytest
from report.test_html import Outline

from contrastive_ucb.report.atari_table import (
    AVERAGE,
    cells,
    published_columns,
    run_columns,
    to_html,
    to_latex,
    to_markdown,
)
from contrastive_ucb.report.fair import PAPER
from contrastive_ucb.report.html import Section, page
from contrastive_ucb.report.markup import SORT, with_markup
from contrastive_ucb.report.tables import NOTHING
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.published import atari100k

GAMES = atari100k().games
OURS = Scores("mine", ("Alien", "Pong"), (np.array([0.1, 0.3]), np.array([0.95])))


def columns():
    return published_columns() + run_columns([OURS])


def markdown_rows(text: str) -> dict[str, list[str]]:
    lines = [line.strip("| \n").split(" | ") for line in text.splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_the_numbers_are_those_of_the_data() -> None:
    rows = dict(cells(published_columns()))
    table = atari100k()
    assert [*rows] == [*GAMES, AVERAGE]
    for at, game in enumerate(GAMES):
        for name, cell in zip(PAPER, rows[game], strict=True):
            assert cell.mean == f"{table.methods[name].scores[at]:.4f}"
            deviations = table.methods[name].deviations
            assert cell.deviation == ("" if deviations is None else f"{deviations[at]:.2f}")


def test_the_last_row_is_the_papers() -> None:
    *_, (name, row) = cells(published_columns())
    assert name == AVERAGE
    printed = (0.2615, 0.2171, 0.3503, 0.3320, 0.3691, 0.4647, 0.6158, 0.6938)
    np.testing.assert_allclose([cell.value for cell in row], printed, atol=1e-4)
    assert [cell.bold for cell in row] == [False] * 6 + [True] * 2
    # Printed as .32 and .24; the mean of rounded deviations may differ in the last digit.
    np.testing.assert_allclose([row[-2].spread, row[-1].spread], [0.32, 0.24], atol=0.01)


@pytest.mark.parametrize("game", GAMES)
def test_the_best_two_are_bold(game: str) -> None:
    row = dict(cells(published_columns()))[game]
    bold = [cell.value for cell in row if cell.bold]
    plain = [cell.value for cell in row if not cell.bold]
    assert len(bold) == 2
    assert min(bold) > max(plain)


def test_our_columns_never_change_what_is_bold_among_the_published() -> None:
    alone, beside = dict(cells(published_columns())), dict(cells(columns()))
    for game in (*GAMES, AVERAGE):
        assert [c.bold for c in alone[game]] == [c.bold for c in beside[game][:8]]
    assert beside["Alien"][8].bold  # .2 is above all published ones
    assert beside["Pong"][8].bold  # .95 is above SimPLe's .9495
    low = Scores("low", ("Alien",), (np.array([0.0924 - 0.001]),))
    assert not dict(cells(published_columns() + run_columns([low])))["Alien"][8].bold


def test_missing_games_are_missing_and_not_averaged_over() -> None:
    rows = dict(cells(columns()))
    assert rows["Alien"][8].mean == "0.2000"
    assert rows["Alien"][8].deviation == f"{np.std([0.1, 0.3], ddof=1):.2f}"
    assert rows["Pong"][8].deviation == ""  # one run has no deviation
    assert (rows["Alien"][8].count, rows["Pong"][8].count) == (2, 1)
    assert rows["Boxing"][8].mean == NOTHING
    assert not rows["Boxing"][8].bold
    assert rows[AVERAGE][8].missing


def test_an_average_over_all_games() -> None:
    scores = Scores("mine", GAMES, tuple(np.array([0.2, 0.4]) for _ in GAMES))
    *_, (_, row) = cells(published_columns() + run_columns([scores]))
    assert row[-1].value == pytest.approx(0.3)
    assert row[-1].count is None


def test_markdown_says_what_was_run_here() -> None:
    rows = markdown_rows(to_markdown(columns()))
    assert rows["game"][7:] == ["SPR-UCB (released code), 10 runs", "mine (run here), 1 to 2 runs"]
    assert rows["game"][3] == "SimPLe, 5 runs"
    assert rows["Alien"][5:] == [
        "**0.0924**",
        "0.0890 ± 0.03",
        "**0.0997** ± 0.02",
        "**0.2000** ± 0.14 (2)",
    ]
    assert rows["Boxing"][8] == NOTHING
    assert len({len(row) for row in rows.values()}) == 1


def test_latex_has_as_many_cells_in_every_row() -> None:
    text = to_latex(columns())
    rows = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert {line.count("&") for line in rows[1:]} == {9}  # but for the row of groups
    assert "\\multicolumn{8}{c}{published} & \\multicolumn{1}{|c}{run here}" in rows[0]
    assert "Alien & 0.0700 & " in text
    assert "\\textbf{0.0997} {\\scriptsize $\\pm$0.02}" in text
    assert text.count("{") == text.count("}")
    assert not re.search(r"(?<!\\)%.*[^\n]\d\.\d{4}", text.split("\\begin{table}")[1])


def test_html_is_whole_sortable_and_apart() -> None:
    text = to_html(columns())
    outline = Outline(text)
    assert outline.seen.count("tr") == 2 + 26 + 1
    assert outline.seen.count("th") == 2 + 1 + 10 + 27  # groups, names, rows
    assert text.count('class="here') == 1 + 27  # the name and the rows
    assert "published</th>" in text
    assert "run here</th>" in text
    values = re.findall(r'<td[^>]*data-value="([^"]*)"', text)
    assert len(values) == 27 * 9
    assert values.count("") == 24 + 1  # missing games, and with them the average
    assert text.count("<strong>") == 27 * 2 + 2


def test_names_are_escaped() -> None:
    evil = Scores("<b>&", ("Alien",), (np.ones(1),))
    text = to_html(published_columns() + run_columns([evil]))
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text
    assert "\\&" in to_latex(published_columns() + run_columns([evil]))


def test_the_same_inputs_give_the_same_bytes() -> None:
    for write in (to_html, to_markdown, to_latex):
        assert write(columns()) == write(columns())


def test_the_script_is_the_only_one_that_the_policy_allows() -> None:
    plain = page("T", [Section("Here"), Section("There")], "f")
    text = with_markup(plain, {"There": "<p>x</p>\n"}, SORT)
    assert "<h2>There</h2>\n<p>x</p>\n" in text
    assert text.count("<script>") == 1
    assert "script-src &#x27;sha256-" in text
    assert "script-src" not in with_markup(plain, {})
    with pytest.raises(ValueError, match="0 headings"):
        with_markup(plain, {"Nowhere": ""})
