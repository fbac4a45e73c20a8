"""The page as text: complete, self-contained, safe, the same every time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from converter_lite.errors import QualityError, UsageError
from converter_lite.reports.page import packages
from converter_lite.reports.page import render as page_module
from converter_lite.reports.page.render import render
from tests.reports.pages import chain_figures, content, renamed

EVIL = '</script><script>window.harmed = 1</script><img src=x onerror="window.harmed = 1">{{ 7 * 7 }}\'&'


@pytest.fixture(scope="module")
def text() -> str:
    return render(content(chain_figures(3), formats=2))


def data_of(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    return json.loads(found)


def markup_of(text: str) -> str:
    """The page without the contents of its scripts and its style."""
    return re.sub(r"(<(script|style)[^>]*>).*?(</\2>)", r"\1\3", text, flags=re.DOTALL)


def test_the_page_holds_the_figures_of_every_format(text: str) -> None:
    figures = chain_figures(3)
    models = data_of(text)["models"]
    assert [model["name"] for model in models] == ["ONNX", "MINDIR_LITE"]
    assert models[0] == {"name": "ONNX", **figures.to_json()}


def test_the_page_shows_summary_reasons_samples_and_configuration(text: str) -> None:
    markup = markup_of(text)
    for wanted in ("chain.onnx", "5 of 6", "0.999100", "31.2 dB", "passed", "cosine 0.95", "out/MINDIR_LITE"):
        assert wanted in markup, wanted
    for wanted in (
        "1 × CPU has no integer kernel for Softmax",
        "softmax",
        "quant_type",
        "FULL_QUANT",
        "a warning",
        "1 × 3 × 12 × 16",
    ):
        assert wanted in markup, wanted
    assert markup.count("data:image/png;base64,") == 1


def test_a_missed_gate_is_reported() -> None:
    page = content(chain_figures(1))
    object.__setattr__(page.formats[0], "gate", 0.9999)
    assert '<b class="bad">missed</b>' in render(page)


def test_the_verdict_says_what_to_do_next() -> None:
    page = content(chain_figures(1))
    (passed,) = page.formats
    missed = replace(passed, gate=0.9999)
    assert "as accurate as asked for: cosine 0.999100" in passed.verdict.text
    assert "below the gate of 0.9999" in missed.verdict.text
    assert "target_cosine=0.9999" in missed.verdict.next_step
    slow = replace(passed, refusal=QualityError("1.2 times as fast", where="out/x.onnx", hint="ask for less"))
    assert (slow.verdict.text, slow.verdict.next_step) == (
        "Not written: out/x.onnx: 1.2 times as fast.",
        "ask for less",
    )
    assert "on random data" in replace(passed, sample_kind="random").verdict.text
    for item in (passed, missed):
        markup = markup_of(render(replace(page, formats=[item])))
        assert item.verdict.text in markup
        assert item.verdict.next_step in markup


def test_formats_stand_side_by_side_and_the_command_can_be_repeated(text: str) -> None:
    markup = markup_of(text)
    table = markup[markup.index('class="formats"') :].partition("</table>")[0]
    assert "out/ONNX" in table
    assert "out/MINDIR_LITE" in table
    command = re.search(r'<code>(<span class="argument">.*?)</code>', markup)
    assert command is not None
    arguments = "converter_lite --fmk=ONNX --modelFile=chain.onnx --outputFile=out/chain"
    assert re.sub("<.*?>", "", command[1]) == arguments
    assert '<span class="argument">--modelFile=chain.onnx</span>' in command[1], "a flag is not broken at its dashes"
    assert "asked for in Python" in markup_of(render(replace(content(chain_figures(1)), command="")))


@pytest.mark.parametrize(
    ("model", "shown"),
    [(9_999, "9,999 bytes"), (45_678, "45.68 kB"), (9_000_000, "9,000.00 kB"), (12_345_678, "12.346 MB")],
)
def test_all_sizes_of_a_page_have_the_unit_of_its_model(model: int, shown: str) -> None:
    page = content(chain_figures(1))
    page = replace(page, model_bytes=model, formats=[replace(page.formats[0], bytes=min(model, 12_345))])
    text = render(page)
    assert f"{shown} before" in markup_of(text)
    unit = data_of(text)["unit"]
    assert shown.endswith(unit["name"])
    assert page.unit.text(page.formats[0].bytes) in markup_of(text)


def test_the_page_asks_the_network_for_nothing(text: str) -> None:
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"'](?!data:)[^\"']*", markup_of(text))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#39;none&#39;;")
    assert "http" not in policy
    assert "sourceMappingURL" not in text


def test_names_from_a_model_are_text_and_never_markup() -> None:
    figures = renamed(chain_figures(1), "softmax", EVIL)
    text = render(content(figures, title=EVIL))
    assert "<img src=x" not in text
    assert "<script>window" not in text
    assert "</script><script>" not in text.replace("</script>\n<script>", "")
    assert data_of(text)["models"][0]["layers"][-1]["name"] == EVIL
    assert "{{ 7 * 7 }}" in text
    assert "49" not in markup_of(text)


def test_the_same_content_gives_the_same_page(text: str) -> None:
    assert render(content(chain_figures(3), formats=2)) == text


def test_500_layers_in_two_formats_stay_below_5_megabytes() -> None:
    figures = chain_figures(20)
    layers = [item for item in figures.layers if item.op_type == "Conv"]
    count = len(figures.tensors)
    grown = [(copy, layer) for copy in range(25) for layer in layers]
    figures.layers = [replace(layer, name=f"backbone/stage_{copy}/{layer.name}") for copy, layer in grown]
    tensors = [(copy, tensor) for copy in range(25) for tensor in figures.tensors.values()]
    figures.tensors = {f"{copy}/{t.name}": replace(t, name=f"backbone/stage_{copy}/{t.name}") for copy, t in tensors}
    assert len(figures.layers) == 500
    assert len(figures.tensors) == 25 * count
    assert len(render(content(figures, formats=2)).encode()) < 5_000_000


def test_without_its_packages_the_page_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PACKAGES", ("json", "no_such_package"))
    with pytest.raises(UsageError, match="the page needs no_such_package, which is not installed") as refused:
        packages.require_packages("--report=page.html")
    assert refused.value.hint == "pip install 'converter-lite[report]'"


def test_the_scripts_of_the_page_are_files_of_the_package() -> None:
    folder = Path(page_module.__file__).parent
    own = {path.name for path in folder.glob("*.js")}
    assert own == set(page_module.OWN_SCRIPTS)
