"""Pages that are made from the code are up to date, and relative links of all pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from converter_lite.cli import documentation
from converter_lite.cli.converter_lite import cli
from converter_lite.config.schema import SECTIONS
from converter_lite.formats.registry import FORMATS, FRAMEWORKS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "samples/README.md", *sorted(ROOT.glob("docs/**/*.md"))]
LINK = re.compile(r"(?<!\!)\[[^]]*\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)


@pytest.mark.parametrize("name", documentation.pages())
def test_a_page_that_is_made_from_the_code_is_up_to_date(name: str) -> None:
    text = (documentation.FOLDER / name).read_text(encoding="utf-8")
    assert text == documentation.pages()[name], "python -m converter_lite.cli.documentation"


def test_the_reference_has_every_flag_key_and_format() -> None:
    pages = documentation.pages()
    options = [parameter for command in (cli, *cli.commands.values()) for parameter in command.params]
    names = [name for option in options for name in option.opts if name.startswith("--")]
    assert [name for name in names if f"{name}" not in pages["reference/commands.md"]] == []
    keys = [key.name for section in SECTIONS for key in section.keys]
    assert [key for key in keys if f"| `{key}`" not in pages["reference/configuration.md"]] == []
    assert [name for name in (*FRAMEWORKS, *FORMATS) if f"| `{name}` |" not in pages["reference/formats.md"]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for name, anchor in LINK.findall(text):
        target = page.parent / name if name else page
        assert target.exists(), name
        if anchor and target.suffix == ".md":
            headings = HEADING.findall(target.read_text(encoding="utf-8"))
            assert anchor in [slug(heading) for heading in headings], f"{name}#{anchor}"


def slug(heading: str) -> str:
    """The anchor of a heading, on GitHub and on the site."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
