"""Caffe networks in OpenCV, which reads the same files with code of its own, beside the graphs that are made of them.

There is no Caffe for today's Python. Where OpenCV differs from Caffe's own sources, the layer is named here with the difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.formats.caffe.cases import CASES
from tests.formats.caffe.detectors import DETECTIONS, detector_feed, detector_text, ssd
from tests.formats.caffe.networks import read, run, save
from tests.runtimes.conftest import Tally
from tests.runtimes.cv_runtime import Case, run_cases, skip_if_missing
from tests.support import normal, shared_model

pytestmark = pytest.mark.runtime

UNKNOWN = (
    "Convolution: DepthwiseConvolution",
    "Pooling: MAX rounded down",
    "Pooling: AVE rounded down",
    "Pooling: MAX of all",
    "linear: Embed",
    "linear: Embed without bias",
    "activation: Clip",
    "activation: PReLU with one slope",
    "activation: Threshold",
    "normalization: Scale along all axes",
    "normalization: Scale by one number",
    "normalization: Bias",
    "normalization: Normalize over all",
    "arithmetic: Axpy",
    "arithmetic: Reduction",
    "arithmetic: ArgMax",
    "arithmetic: the three largest",
    "arithmetic: values of an axis",
    "arithmetic: places of an axis among equals",
    "arithmetic: the largest of a matrix",
    "shape: Reshape that keeps one",
    "shape: Reshape that adds one",
    "shape: Permute of the first axes",
    "shape: Slice",
    "shape: Tile",
    "shape: Silence",
    "shape: Interp that shrinks",
    "shape: Interp to the size of a blob",
    "shape: Upsample",
)
"""Networks that OpenCV refuses: beginnings of their names."""

DIFFERENT = {
    "Convolution: one pad": "takes pad_w alone for no pad",
    "Deconvolution: dilation": "leaves the dilation out",
    "linear: transposed": "leaves transpose out",
    "activation: Swish with beta": "leaves beta out",
    "activation: Log to a base": "leaves base, scale and shift out",
    "normalization: Scale by a blob": "leaves the bias out",
    "normalization: LRN": "calls k bias",
    "normalization: MVN across channels": "adds eps to the variance, not to the deviation",
    "shape: Concat by its old name": "leaves concat_dim out",
    "shape: Interp by both factors": "leaves the shrinking out",
    "shape: Interp of the middle": "leaves the crop out",
}
"""Networks that OpenCV computes in another way than Caffe."""


def test_opencv_gives_the_numbers_of_every_layer_that_it_has(tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    names = [name for name in CASES if not name.startswith(UNKNOWN) or name in ("shape: Slice at points",)]
    found = run_cases([Case(CASES[n].text, CASES[n].weights, {"x": CASES[n].x}) for n in names], tmp_path)
    wrong = []
    for name, result in zip(names, found, strict=True):
        case = CASES[name]
        ours = run(read(save(tmp_path / "ours", case.text, case.weights)).model, {"x": case.x})["y"]
        if name not in DIFFERENT and not _are_close(result, ours):
            wrong.append(name)
    tally("OpenCV", "CAFFE", tried=len(names) - len(DIFFERENT), wrong=len(wrong))
    assert wrong == []
    assert set(names) >= set(DIFFERENT)


def _are_close(found: NDArray[Any] | str, expected: NDArray[Any]) -> bool:
    if isinstance(found, str) or found.shape != expected.shape:
        return False
    return bool(np.allclose(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(expected).max()))))


def rows(found: NDArray[Any] | str) -> NDArray[Any]:
    """Detections by class and score; OpenCV adds rows of zeros up to ``keep_top_k``."""
    assert not isinstance(found, str), found
    kept = found[0, 0][found[0, 0, :, 2] > 0]
    return kept[np.lexsort((kept[:, 3], -kept[:, 2], kept[:, 1], kept[:, 0]))]


DETECTED = (
    "SSD",
    "few are kept",
    "every overlap is allowed",
    "corners",
    "boxes of each class",
    "another background",
    "two images",
    "clipped",
)
"""Settings of which OpenCV leaves none out; it needs nms_threshold and keep_top_k."""


@pytest.mark.parametrize("name", DETECTED)
def test_opencv_detects_the_same(name: str, tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    settings = {"nms": 0.3, "keep": 50, **DETECTIONS[name]}
    text, feed = detector_text(settings), detector_feed(settings)
    (found,) = run_cases([Case(text, {}, feed)], tmp_path)
    ours = run(read(save(tmp_path / "ours", text)).model, feed)["y"]
    tally("OpenCV", "CAFFE")
    np.testing.assert_allclose(rows(found), rows(ours), rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["float", "half"])
def test_opencv_detects_the_same_with_a_whole_network(form: str, tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    text, weights = ssd()
    path = save(tmp_path / "ours", text, weights, form=form)
    feeds = [{"data": normal(1, 3, 64, 64, seed=seed)} for seed in range(3)]
    content = path.with_suffix(".caffemodel").read_bytes()
    model = read(path).model
    for found, feed in zip(run_cases([Case(text, content, feed) for feed in feeds], tmp_path), feeds, strict=True):
        np.testing.assert_allclose(rows(found), rows(run(model, feed)["detection_out"]), rtol=0, atol=1e-5)
    tally("OpenCV", "CAFFE", tried=len(feeds))


@pytest.mark.shared
def test_opencv_gives_the_scores_of_the_shared_detector(tmp_path: Path, tally: Tally) -> None:
    skip_if_missing()
    path = shared_model("frameworks/caffe/ultraface_rfb_320.prototxt")
    feed = {"input": normal(1, 3, 240, 320)}
    (found,) = run_cases(
        [Case(path.read_text(encoding="utf-8"), path.with_suffix(".caffemodel").read_bytes(), feed)], tmp_path
    )
    tally("OpenCV", "CAFFE")
    assert _are_close(found, run(read(path).model, feed)["scores"])
