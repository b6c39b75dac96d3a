"""Hooks of the documentation site (mkdocs.yml): formulas, generated parts, files outside of docs/.

- TeX between dollars becomes MathML, so no page needs JavaScript or fonts for its formulas.
- `<!-- generated: NAME -->` in a page is replaced by the part of that name of tools/reference.py.
- Links from docs/ to other folders of the repository, such as figures in results/, work in the
  site as they do in the repository.
- Execution of the tutorials is switched off by CUCB_EXECUTE_TUTORIALS=false (see mkdocs.yml).
"""

from __future__ import annotations

import html
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent))

import reference  # noqa: E402

PROJECT_PAGES = {
    "project/contributing.md": "CONTRIBUTING.md",
    "project/changelog.md": "CHANGELOG.md",
}
ASSETS = {"results": ".svg", "examples": ".py"}  # folders outside of docs/ that pages link to
MARKER = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)]*)?\))")
TEX = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])\s*</(?P=tag)>",
    re.DOTALL,
)
# In notebook pages, formulas are plain text between dollars; code and scripts are left alone.
PROTECTED = re.compile(r"(<(pre|code|script|style|svg)\b.*?</\2>)", re.DOTALL)
DOLLARS = re.compile(
    r"\$\$(?P<block>.+?)\$\$|(?<![\\$\w])\$(?P<inline>[^$\n]+?)\$(?![\w$])", re.DOTALL
)
EXTERNAL_SCRIPT = re.compile(
    r'<script[^>]*\bsrc="https?://[^>]*></script>|<script type="text/x-mathjax-config">.*?</script>'
    r'|<script type="module">(?:(?!</script>).)*?https?://(?:(?!</script>).)*?</script>',
    re.DOTALL,
)


def on_files(files: Files, config: Any) -> Files:
    """Add pages and figures that are outside of docs/."""
    for page, source in PROJECT_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_relinked(text, source, page)))
    for folder, suffix in ASSETS.items():
        for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, f"files/{name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Insert generated parts and redirect links that lead out of docs/."""
    text = MARKER.sub(lambda found: reference.part(found[1]), markdown)
    name = page.file.src_uri
    return text if name in PROJECT_PAGES else _relinked(text, f"docs/{name}", name)


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Formulas as MathML; notebook pages also lose the scripts that they would load."""
    content = TEX.sub(_mathml, content)
    if page.file.src_uri.endswith(".py"):
        content = EXTERNAL_SCRIPT.sub("", content)
        parts = PROTECTED.split(content)  # text, protected element, its tag, text, ...
        parts[::3] = [DOLLARS.sub(_mathml, part) for part in parts[::3]]
        del parts[2::3]
        content = "".join(parts)
    return content


def _mathml(found: re.Match[str]) -> str:
    block = found["block"]
    tex = html.unescape(block if block is not None else found["inline"]).strip()
    math = convert(tex, display="inline" if block is None else "block")
    return math if block is None else f'<div class="arithmatex">{math}</div>'


def _relinked(text: str, source: str, page: str) -> str:
    """The text of the file `source` of the repository with links as seen from the page."""

    def target(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        moved = _place(path)
        if moved is None:
            return found[0]
        start = posixpath.dirname(page) or "."
        return f"{found[1]}{posixpath.relpath(moved, start)}{found[3]}"

    return LINK.sub(target, text)


def _place(path: str) -> str | None:
    """Where a file of the repository is in the site, or None to keep the link as it is."""
    places = {source: page for page, source in PROJECT_PAGES.items()} | {"README.md": "index.md"}
    if path in places:
        return places[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    folder, _, name = path.partition("/")
    if name and name.endswith(ASSETS.get(folder, "/")):
        return f"files/{path}"
    return None
