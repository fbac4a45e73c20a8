"""What a package index and a contributor see of the project: metadata, links, tools."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from converter_lite import __version__

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\"|^\[[^]]+\]:\s*(\S+)", flags=re.MULTILINE)


@pytest.fixture(scope="module")
def metadata() -> dict[str, object]:
    """What the build backend puts into a package."""
    line = [sys.executable, "-m", "hatchling", "metadata"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def links(metadata: dict[str, object]) -> list[str]:
    readme = metadata["readme"]
    text = readme["text"] if isinstance(readme, dict) else readme
    return [next(filter(None, groups)) for groups in LINK.findall(str(text))]


def test_no_link_of_the_long_description_is_relative(metadata: dict[str, object]) -> None:
    found = links(metadata)
    assert len(found) > 10
    assert [link for link in found if not link.startswith(("https://", "#"))] == []


def test_links_into_the_project_lead_to_files_of_the_tagged_tree(metadata: dict[str, object]) -> None:
    urls = metadata["urls"]
    assert isinstance(urls, dict)
    tree = f"{urls['Repository']}/blob/v{__version__}/"
    names = {link.removeprefix(tree).partition("#")[0] for link in links(metadata) if link.startswith(tree)}
    assert "docs/user_guide.md" in names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_picture_of_the_long_description_is_fetched_as_a_file(metadata: dict[str, object]) -> None:
    (picture,) = [link for link in links(metadata) if link.endswith(".png")]
    raw = f"https://raw.githubusercontent.com/converter-lite/converter_lite/v{__version__}/"
    assert (ROOT / picture.removeprefix(raw)).is_file()


def test_package_and_module_have_one_version(metadata: dict[str, object]) -> None:
    assert metadata["version"] == __version__


def test_hooks_take_the_oldest_ruff_that_the_project_allows() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r"ruff==([\d.]+)", hooks) == re.findall(r'"ruff>=([\d.]+),<[\d.]+"', project)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source archive has no list of tracked files")
def test_no_tracked_file_is_ignored() -> None:
    line = ["git", "-c", "safe.directory=*", "ls-files", "-ci", "--exclude-standard"]
    assert subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout == ""
