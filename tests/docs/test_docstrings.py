"""The docstrings in the API reference: complete, in Google style, with examples that run."""

import doctest
import re
from pathlib import Path

import griffe
import pytest
import yaml

import contrastive_ucb as cu

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^::: contrastive_ucb\.([\w.]+)\n((?:    .*\n)*)", re.MULTILINE)
SETTINGS = ("AgentConfig", "GameConfig")  # each field has its own docstring
PACKAGE = griffe.load(
    "contrastive_ucb",
    search_paths=[str(ROOT / "src")],
    docstring_parser="google",
    docstring_options={"returns_multiple_items": False},  # as in mkdocs.yml
)


def documented() -> dict[str, griffe.Object]:
    """The public names and the methods that the API pages show, by name."""
    found = {}
    for page in sorted((ROOT / "docs" / "reference" / "api").glob("*.md")):
        for name, block in ENTRY.findall(page.read_text(encoding="utf-8") + "\n"):
            options = (yaml.safe_load(block) or {}).get("options", {})
            found[name] = PACKAGE[name]
            if PACKAGE[name].is_class and options.get("members", True):
                hidden = [text.removeprefix("!") for text in options.get("filters", ["!^_"])]
                members = PACKAGE[name].members | {
                    inherited: PACKAGE[name].all_members[inherited]
                    for inherited in options.get("inherited_members", [])
                }
                found |= {
                    f"{name}.{key}": member
                    for key, member in members.items()
                    if member.docstring and not any(re.search(text, key) for text in hidden)
                }
    return found


DOCUMENTED = documented()
WITH_EXAMPLES = [name for name, item in DOCUMENTED.items() if ">>>" in item.docstring.value]


def sections(item: griffe.Object) -> dict[str, griffe.DocstringSection]:
    """The sections of a docstring, by kind."""
    return {section.kind.value: section for section in item.docstring.parsed}


def test_every_public_name_is_documented_with_an_example() -> None:
    assert set(cu.__all__) <= set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_docstring_has_a_summary_arguments_and_returns(name: str) -> None:
    item = DOCUMENTED[name]
    parts = sections(item)
    assert parts["text"].value.splitlines()[0].endswith(".")
    if item.is_attribute or name in SETTINGS:
        return
    names = [parameter.name for parameter in item.parameters]
    expected = [parameter for parameter in names if parameter not in ("self", "cls")]
    given = [entry.name.lstrip("*") for entry in getattr(parts.get("parameters"), "value", [])]
    assert given == expected
    if item.is_function:
        assert ("returns" in parts) == (str(item.returns) != "None")


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_a_docstring(name: str) -> None:
    for parameter in PACKAGE[name].parameters:
        if parameter.name != "self":
            assert PACKAGE[name].all_members[parameter.name].docstring, parameter.name


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_docstring_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = DOCUMENTED[name].docstring.value
    examples = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(examples, out=printed.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(printed)
