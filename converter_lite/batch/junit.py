"""The results of a batch as JUnit XML, which CI servers show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from converter_lite.batch.results import JobResult
from converter_lite.errors import EXIT_DEFECT

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def junit_xml(results: Sequence[JobResult], *, suite: str) -> str:
    """One test case for each job: failed conversions are failures, defects and killed processes errors."""
    is_error = [result.status < 0 or result.status == EXIT_DEFECT for result in results]
    counts = {
        "tests": str(len(results)),
        "failures": str(sum(result.status != 0 and not error for result, error in zip(results, is_error, strict=True))),
        "errors": str(sum(is_error)),
        "skipped": str(sum(result.skipped for result in results)),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }
    root = ElementTree.Element("testsuites", counts)
    element = ElementTree.SubElement(root, "testsuite", {"name": _text(suite), **counts})
    for result, error in zip(results, is_error, strict=True):
        case = ElementTree.SubElement(
            element,
            "testcase",
            {"classname": "converter_lite", "name": _text(result.name), "time": f"{result.seconds:.3f}"},
        )
        if result.skipped:
            ElementTree.SubElement(case, "skipped", {"message": "converted by an earlier run"})
        if result.status != 0:
            tag = "error" if error else "failure"
            found = ElementTree.SubElement(case, tag, {"type": f"status {result.status}"})
            found.set("message", _text(result.reason))
            found.text = _text(result.error)
        if result.log:
            ElementTree.SubElement(case, "system-out").text = _text(result.log)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
