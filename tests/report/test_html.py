"""The page is whole, safe and self-contained."""

import re
from html.parser import HTMLParser

from contrastive_ucb.report.html import Illustration, Section, page
from contrastive_ucb.report.tables import NOTHING, Table

EVIL = "<script>alert('x & \"y\"')</script>"
VOID = {"meta", "link", "br", "img", "input"}


class Outline(HTMLParser):
    """Which elements there are, and whether each is closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_all_text_is_escaped():
    section = Section(
        EVIL,
        (EVIL,),
        (Illustration("<svg></svg>", EVIL, EVIL),),
        Table((EVIL, EVIL), ((EVIL, EVIL),)),
        EVIL,
        (EVIL,),
        (EVIL,),
    )
    outline = Outline(page(EVIL, [section], EVIL))
    assert "script" not in outline.seen
    assert ("aria-label", EVIL) in outline.attributes
    # Twice the title, four table cells, and seven more places.
    assert outline.text.count(EVIL) == 13


def test_the_page_is_self_contained_and_fit_for_a_phone():
    text = page("Title", [Section("Heading", ("A paragraph.",))], "footer")
    outline = Outline(text)
    assert not {"script", "link", "img", "iframe"} & set(outline.seen)
    assert ("name", "viewport") in outline.attributes
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in dict(outline.attributes).get("content", "") or (
        "default-src &#x27;none&#x27;" in text
    )
    assert not re.search(r"@import|url\(", text)


def test_a_section_shows_only_what_it_has():
    outline = Outline(page("Title", [Section("Heading")], "footer"))
    assert not {"figure", "table", "ul", "pre"} & set(outline.seen)
    assert outline.seen.count("p") == 1  # the footer's


def test_a_wide_table_scrolls_in_its_own_box():
    table = Table(("agent", "gap"), (("a", "1"),))
    text = page("Title", [Section("Heading", table=table)], "footer")
    assert '<div class="scroll" tabindex="0">\n<table>' in text
    assert '<th scope="row">a</th><td>1</td>' in text


def test_words_stand_on_the_left_numbers_on_the_right_and_long_texts_are_broken():
    row = ("a", "spr-ucb", "1,234.5", "0 to 4", "50.0%", "2.4e-06", "4dc20699", NOTHING, "x" * 41)
    text = page("Title", [Section("Heading", table=Table(tuple("abcdefghi"), (row, row)))], "f")
    head = re.findall(r'<th scope="col"( class="\w+")?>', text)
    assert head == ["", ' class="words"', "", "", "", "", ' class="words"', "", ' class="long"']
    assert '<td class="words">spr-ucb</td><td>1,234.5</td>' in text
    assert '<th scope="row">a</th>' in text


def test_one_odd_cell_does_not_turn_a_column_of_numbers_round():
    rows = (("a", "0.1 to 0.2"), ("b", "2 of 5 (missing: 3)"), ("c", "one run"))
    text = page("Title", [Section("Heading", table=Table(("a", "b"), rows))], "f")
    assert "<td>one run</td>" in text
    rows = (("a", "-1 or steeper, by the lemma"), ("b", "1 of the bound, or less"))
    text = page("Title", [Section("Heading", table=Table(("a", "b"), rows))], "f")
    assert '<td class="words">1 of the bound' in text


def test_a_table_without_rows_has_its_header():
    text = page("Title", [Section("Heading", table=Table(("a", "b"), ()))], "f")
    assert '<th scope="col">a</th><th scope="col">b</th>' in text
