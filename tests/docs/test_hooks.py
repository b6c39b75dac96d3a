"""Hooks of the site: formulas of pages and notebooks, and links out of docs/."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
from tools import docs_hooks as hooks


def page(name: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=name))


def test_tex_becomes_mathml() -> None:
    inline = r'<p>so <span class="arithmatex">\(x &lt; 1\)</span></p>'
    made = hooks.on_page_content(inline, page("a.md"), None, None)
    assert "<math" in made
    assert "<mo>&#x0003C;</mo>" in made
    assert "arithmatex" not in made
    block = '<div class="arithmatex">\n\\[\\sqrt{x}\\]</div>'
    assert "<msqrt>" in hooks.on_page_content(block, page("a.md"), None, None)


def test_dollars_of_notebooks_are_formulas_outside_of_code() -> None:
    text = (
        "<p>with $x^2$ and $$\\frac{1}{2}$$</p><pre>cost = '$5 to $6'</pre>"
        '<script src="https://example.org/a.js"></script><p>from 5$ to 6$</p>'
    )
    made = hooks.on_page_content(text, page("tutorials/1.py"), None, None)
    assert made.count("<math") == 2
    assert "'$5 to $6'" in made
    assert "from 5$ to 6$" in made
    assert "https://example.org" not in made
    assert hooks.on_page_content(text, page("a.md"), None, None) == text


def test_links_out_of_docs_lead_into_the_site() -> None:
    def seen(text: str) -> str:
        return str(hooks.on_page_markdown(text, page("results/theory.md"), None, None))

    assert seen("![a](../../results/theory/a.svg)") == "![a](../files/results/theory/a.svg)"
    assert seen("[a](../../CHANGELOG.md#x)") == "[a](../project/changelog.md#x)"
    assert seen("[a](locks.md) [b](https://a.org/b)") == "[a](locks.md) [b](https://a.org/b)"
