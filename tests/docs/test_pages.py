"""Pages that are made from the code are up to date, and relative links of all pages lead somewhere."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

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
    assert [name for name in names if name not in pages["reference/commands.md"]] == []
    keys = [key.name for section in SECTIONS for key in section.keys]
    assert [key for key in keys if f"\n| `{key}`" not in pages["reference/configuration.md"]] == []
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


def test_the_site_leads_links_out_of_its_pages_to_the_repository(caplog: pytest.LogCaptureFixture) -> None:
    spec = spec_from_file_location("docs_links", ROOT / ".ci/docs_links.py")
    assert spec is not None
    assert spec.loader is not None
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="how_to/run_files.md"))
    config = SimpleNamespace(config_file_path=str(ROOT / "mkdocs.yml"), repo_url="https://host/project")
    text = "[a](../../bench/RESULTS.md#goals) [b](../accuracy.md) [c](../../absent.md)"
    made = hook.on_page_markdown(text, page=page, config=config)
    assert made.split() == [
        "[a](https://host/project/blob/main/bench/RESULTS.md#goals)",
        "[b](../accuracy.md)",
        "[c](https://host/project/blob/main/absent.md)",
    ]
    assert caplog.messages == ["how_to/run_files.md: ../../absent.md leads nowhere"]


def slug(heading: str) -> str:
    """The anchor of a heading, on GitHub and on the site."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
