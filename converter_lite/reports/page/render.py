"""The page as text: a Jinja2 template, BokehJS as its package ships it, our own scripts, and the figures as JSON.

Nothing that comes from a model becomes markup: Jinja2 escapes what it fills in, the JSON has no ``<``, and the scripts set text
as text. A content security policy stands behind that: only the scripts whose hashes it names run, and nothing is loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib import resources

from converter_lite.reports.page.content import PageContent

BOKEH_SCRIPTS = ("bokeh.min.js", "bokeh-api.min.js")
OWN_SCRIPTS = ("charts.js", "table.js", "page.js")


def render(page: PageContent) -> str:
    """The page. The same content gives the same text."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(base64=_base64, decibels=_decibels, figure=_figure)
    own = resources.files(__package__)
    scripts = [_bokeh(name) for name in BOKEH_SCRIPTS]
    scripts += [own.joinpath(name).read_text(encoding="utf-8") for name in OWN_SCRIPTS]
    scripts = [_inline(text) for text in scripts]
    template = environment.from_string(own.joinpath("template.html").read_text(encoding="utf-8"))
    return template.render(
        page=page,
        css=Markup(own.joinpath("page.css").read_text(encoding="utf-8")),
        data=Markup(data_json(page)),
        scripts=[Markup(text) for text in scripts],
        policy=_policy(scripts),
    )


def data_json(page: PageContent) -> str:
    """Figures of all formats, in a form that may stand inside a script element."""
    models = [{"name": item.name, **item.figures.to_json()} for item in page.formats]
    unit = {"name": page.unit.name, "bytes": page.unit.bytes, "digits": page.unit.digits}
    text = json.dumps({"unit": unit, "models": models}, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _bokeh(name: str) -> str:
    return resources.files("bokeh").joinpath("server", "static", "js", name).read_text(encoding="utf-8")


def _inline(script: str) -> str:
    """A script that may stand inside an element: no end tag, and no address of a source map."""
    lines = [line for line in script.split("\n") if not line.startswith("//# sourceMappingURL=")]
    return "\n".join(lines).replace("</script", "<\\/script")


def _policy(scripts: list[str]) -> str:
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decibels(value: float) -> str:
    return f"{value:.1f} dB" if math.isfinite(value) else "equal"


def _figure(value: float) -> str:
    return f"{value:.4g}"
