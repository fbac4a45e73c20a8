"""Where runtimes can be made, a test that is skipped for want of one is a failure: nobody would notice otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.conftest import VARIANTS
from tests.runtimes.paddle import require, require_paddle_models
from tests.runtimes.paddle_arm import require_arm

REQUIRED = tuple(os.environ.get("CONVERTER_LITE_RUNTIMES_REQUIRED", "").split())
"""Names of runtimes that have to be there; CI sets it."""

REASONS = {
    "ms20": ("ms20/bin/python", "ms_weight_cache_shim"),
    "ms20-arm64": ("ms20-arm64", "qemu-aarch64-static"),
    "pd210": ("Paddle-Lite 2.10",),
    "pd212": ("Paddle-Lite 2.12",),
    "pd213": ("Paddle-Lite 2.13rc0",),
    "pd212-arm64": ("pd212-arm64",),
    "openvino": ("openvino/bin/python",),
    "web": ("web/node_modules",),
    "paddle33": ("paddle33/bin/python",),
    "paddle26": ("paddle26/bin/python",),
    "mindspore27": ("mindspore27/bin/python",),
    "mindspore20": ("mindspore20/bin/python",),
    "opencv": ("opencv/bin/python",),
    "tensorflow": ("tensorflow/bin/python",),
    "torch": ("torch/bin/python",),
    "litert": ("litert/bin/python",),
    "learn": ("learn/bin/python",),
    "without_vnni": ("no onnxruntime without VNNI",),
}
"""Runtime -> what the reason of a skip holds when it is missing."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn such a skip into a failure."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if any(text in reason for name in REQUIRED for text in REASONS[name]):
            report.outcome = "failed"
            report.longrepr = f"the runtime can be made here, and is missing ({reason})"
    return report


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where files of the original ``opt`` are made."""
    require("2.12")
    require_paddle_models()
    return tmp_path_factory.mktemp("opt")


Tally = Callable[..., None]


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Tally:
    """Count variants for the table at the end: ``tally(runtime, form, tried=1, refused=0, wrong=None)``."""

    def count(runtime: str, form: str, *, tried: int = 1, refused: int = 0, wrong: int | None = None) -> None:
        record_property(VARIANTS, (runtime, form, tried, refused, wrong))

    return count


@pytest.fixture(scope="session")
def nb_arm() -> None:
    """Paddle-Lite's library for ARM64."""
    require_arm()


QUICK_MODELS = ("ultraface", "resnet8", "resnet8_cifar10.onnx")
"""Models of the everyday run; the others, and models under emulation, are for ``make conformance``."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long: whole models under emulation, in every release, or large."""
    for item in items:
        if not isinstance(item, pytest.Function) or item.path.name not in ("test_ms_models.py", "test_nb_models.py"):
            continue
        params = item.callspec.params if hasattr(item, "callspec") else {}
        name, release = params.get("name", QUICK_MODELS[0]), params.get("release", "2.12")
        is_emulated = getattr(params.get("platform"), "name", "") == "arm"
        is_float = item.name.startswith("test_float_models")
        if name not in QUICK_MODELS or release != "2.12" or (is_emulated and not (is_float and name == "ultraface")):
            item.add_marker(pytest.mark.slow)
