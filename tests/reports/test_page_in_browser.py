"""The page in a real headless Chromium: it draws, sorts, filters, opens layers, and complains about nothing.

Screenshots are kept in ``screenshots/`` of the checkout (not under version control); CI keeps them as artefacts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from converter_lite.reports.figures import RankedBy
from converter_lite.reports.page.content import PageContent
from tests.reports.browser import Browser
from tests.reports.pages import chain_figures, content, renamed, write_page
from tests.reports.test_page import EVIL

pytestmark = pytest.mark.once

SCREENSHOTS = Path(__file__).resolve().parents[2] / "screenshots"

SHOWS_NAME = """function find(root) {
  return [...root.querySelectorAll('*')].some(({ shadowRoot }) =>
    shadowRoot && (shadowRoot.textContent.includes('window.harmed') || find(shadowRoot)));
}"""
"""Whether a chart shows the harmful name, in a tooltip."""

COLUMNS = {"layer": 2, "operator": 3, "mode": 4, "dB alone": 7}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def page() -> PageContent:
    figures = chain_figures(12)
    other = replace(figures, layers=figures.layers[:7], target="ARM")
    made = content(figures, formats=2)
    return replace(made, formats=[made.formats[0], replace(made.formats[1], figures=other)])


@pytest.fixture
def opened(browser: Browser, page: PageContent, tmp_path: Path) -> Iterator[Browser]:
    """The page, freshly loaded; whatever a test does on it, nothing is complained about and nothing is loaded."""
    browser.console.clear()
    browser.requests.clear()
    file = write_page(tmp_path / "report.html", page)
    browser.open(file)
    yield browser
    assert browser.console == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [file.resolve().as_uri()]


def column(browser: Browser, title: str) -> Any:
    """Texts of a column of the table, of rows that are shown."""
    selector = f"#layers tbody tr:not(.detail) td:nth-child({COLUMNS[title]})"
    return browser.run(f"[...document.querySelectorAll({selector!r})].map((cell) => cell.textContent)")


def point(browser: Browser, index: int) -> Any:
    """Place of a layer's accumulated error in the window."""
    browser.run("document.querySelector('#error-chart').scrollIntoView({block: 'center'})")
    return browser.run(
        "(() => { const chart = document.querySelector('#error-chart');"
        " const view = [...Bokeh.index].find((one) => chart.contains(one.el));"
        " const { data } = view.model.renderers[1].data_source, box = view.el.getBoundingClientRect();"
        f" return [box.x + view.frame.x_scale.compute(data.x[{index}]),"
        f" box.y + view.frame.y_scale.compute(data.total[{index}])]; }})()"
    )


def header(title: str) -> str:
    return f"#layers thead th:nth-child({COLUMNS[title]}) button"


def test_the_page_draws_its_charts_and_lists_every_layer(opened: Browser, page: PageContent) -> None:
    assert column(opened, "layer") == [layer.name for layer in page.formats[0].figures.layers]
    assert opened.run("document.querySelectorAll('#error-chart .bk-Figure, #size-chart .bk-Figure').length") == 2
    assert opened.run("document.querySelector('#ranking-bars .bar').getBoundingClientRect().width") > 100
    opened.screenshot(SCREENSHOTS / "report.png")


def test_a_click_on_a_title_sorts_and_another_one_turns_the_order_around(opened: Browser) -> None:
    opened.click(header("dB alone"))
    rising = [float(text) for text in column(opened, "dB alone") if text != "–"]
    assert rising == sorted(rising)
    assert len(set(rising)) > 5
    opened.click(header("dB alone"))
    shown = column(opened, "dB alone")
    falling = [float(text) for text in shown if text != "–"]
    assert falling == sorted(rising, reverse=True)
    assert shown[len(falling) :] == ["–"] * (len(shown) - len(falling))  # layers without a value come last


def test_names_are_sorted_as_people_count(opened: Browser) -> None:
    opened.click(header("layer"))
    names = [name for name in column(opened, "layer") if name.startswith("conv")]
    assert names == [f"conv_{i}" for i in range(12)]


def test_filters_by_words_and_by_mode_leave_the_layers_that_match(opened: Browser) -> None:
    opened.type("#filter", "RELU_1")
    assert column(opened, "layer") == ["relu_1", "relu_10"]
    assert opened.run("document.querySelector('#count').textContent") == "2 of 24 layers"
    opened.run("document.querySelector('#filter').value = ''")
    opened.run(
        "const mode = document.querySelector('#mode'); mode.value = 'float'; mode.dispatchEvent(new Event('input'))"
    )
    assert set(column(opened, "mode")) == {"float"}
    assert column(opened, "layer") == ["softmax"]


def test_a_click_on_a_layer_opens_it_with_a_histogram_per_tensor(opened: Browser) -> None:
    button = "#layers tbody tr:nth-child(3) button"
    opened.click(button)
    opened.wait("document.querySelectorAll('.detail .bk-Figure').length === 3")
    text = opened.run("document.querySelector('.detail').textContent")
    for wanted in (
        "accumulatedcosine 0.99",
        "SQNR",
        "reads activation r0",
        "reads constant w1",
        "gives activation r1",
        "8 bits",
    ):
        assert wanted in text, wanted
    assert opened.run(f"document.querySelector({button!r}).getAttribute('aria-expanded')") == "true"
    opened.screenshot(SCREENSHOTS / "report_layer.png")
    opened.click(button)
    assert opened.run("document.querySelectorAll('.detail').length") == 0


def test_an_open_layer_stays_open_while_the_table_is_sorted(opened: Browser) -> None:
    opened.click("#layers tbody tr:nth-child(3) button")
    opened.click(header("operator"))
    before = opened.run("document.querySelector('.detail').previousElementSibling.cells[1].textContent")
    assert before == "conv_1"


def test_a_click_on_a_point_of_the_chart_opens_its_layer(opened: Browser) -> None:
    opened.press(*point(opened, 4))
    opened.wait("document.querySelector('.detail')")
    assert opened.run("document.querySelector('.detail').previousElementSibling.cells[1].textContent") == "conv_4"


def test_the_measure_of_the_chart_can_be_changed(opened: Browser) -> None:
    opened.run("const m = document.querySelector('#measure'); m.value = 'loss'; m.dispatchEvent(new Event('input'))")
    opened.wait("document.querySelectorAll('#error-chart .bk-Figure').length === 1")
    opened.wait("[...Bokeh.index].some((view) => view.model.left?.[0]?.axis_label === '1 − cosine')")


def test_another_format_shows_its_own_layers_and_reasons(opened: Browser) -> None:
    opened.click("[data-choose='1']")
    opened.wait("document.querySelectorAll('#layers tbody tr').length === 7")
    assert opened.run("[...document.querySelectorAll('section[data-format]')].filter((s) => !s.hidden).length") == 2
    assert "for ARM" in opened.run("document.querySelector('section[data-format=\"1\"]').textContent")


FIGURES = "[...Bokeh.index].map((view) => view.model).filter((one) => one.renderers)"
LOOKS = {f"{width}{'_dark' * dark}": (width, dark) for width in (1400, 400) for dark in (False, True)}


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_fits_its_window_in_light_and_dark(opened: Browser, page: PageContent, look: str) -> None:
    width, dark = LOOKS[look]
    opened.look(width=width, dark=dark)
    try:
        opened.wait("document.querySelectorAll('#error-chart .bk-Figure').length === 1")
        # charts and media queries follow the window in the browser's own time
        opened.wait(f"document.documentElement.scrollWidth <= {width}")
        opened.wait(
            f"(getComputedStyle(document.body).backgroundColor !== 'rgb(255, 255, 255)') === {str(dark).lower()}"
        )
        paper = "'#151b21'" if dark else "'#ffffff'"
        opened.wait(f"{FIGURES}.length === 2 && {FIGURES}.every((one) => one.background_fill_color === {paper})")
        picture = SCREENSHOTS / f"report_{look}.png"
        opened.screenshot(picture)
        left, top = opened.run(
            "(({x, y}) => [x, y + scrollY])(document.querySelector('#error-chart').getBoundingClientRect())"
        )
        edge = Image.open(picture).convert("L").crop((int(left), int(top) + 2, int(left) + 1, int(top) + 298))
        assert edge.getextrema()[0] == edge.getextrema()[1], (
            "labels of the window's former size are left at the chart's edge"
        )
    finally:
        opened.look(width=1280)


def test_the_chart_has_the_numbers_of_the_table(opened: Browser, page: PageContent) -> None:
    names = [layer.name for layer in page.formats[0].figures.layers]
    shown = opened.run(
        f"{FIGURES}.map((one) => one.renderers[0].data_source.data)"
        ".flatMap((data) => [...data.x].map((x, i) => [x, data.name[i]]))"
    )
    assert len(shown) > 12
    assert all(names[number - 1] == name for number, name in shown)


def test_layers_are_reached_and_opened_with_the_keyboard(opened: Browser) -> None:
    opened.run("document.querySelector('#layers tbody button').focus()")
    opened.key("Enter")
    opened.wait("document.querySelector('.detail')")
    assert opened.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    opened.key("Tab")
    assert opened.run("document.activeElement.closest('#layers') !== null")


def test_advice_comes_from_what_was_measured_at_the_outputs_only(
    browser: Browser, page: PageContent, tmp_path: Path
) -> None:
    for ranked_by in (RankedBy.LOCAL, RankedBy.FALLBACK):
        figures = replace(page.formats[0].figures, ranked_by=ranked_by)
        browser.open(write_page(tmp_path / "advice.html", content(figures)))
        hidden = browser.run("document.querySelector('#ranking-hint').hidden")
        assert hidden == (ranked_by is RankedBy.LOCAL)


def test_the_page_can_be_printed(opened: Browser, tmp_path: Path) -> None:
    opened.print(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_names_that_are_markup_do_no_harm(browser: Browser, tmp_path: Path) -> None:
    figures = renamed(chain_figures(2), "conv_1", EVIL)
    browser.console.clear()
    browser.open(write_page(tmp_path / "evil.html", content(figures, title=EVIL)))
    browser.click("#layers tbody tr:nth-child(3) button")
    browser.wait("document.querySelectorAll('.detail .bk-Figure').length > 0")
    assert browser.run("document.querySelector('h1').textContent") == EVIL
    assert column(browser, "layer")[2] == EVIL
    browser.hover(*point(browser, 1))
    browser.wait(f"({SHOWS_NAME})(document)")
    assert browser.run("typeof window.harmed") == "undefined"
    assert browser.run("document.images.length") == 1  # the prepared sample
    assert browser.console == []
