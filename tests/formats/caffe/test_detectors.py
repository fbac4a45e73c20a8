"""Boxes and detections of SSD against NumPy written from its loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.formats.caffe import layers as caffe
from tests.formats.caffe.detectors import (
    DETECTIONS,
    IMAGE,
    PRIORS,
    detected,
    detector_feed,
    detector_text,
    prior_text,
)
from tests.formats.caffe.networks import read, run, save
from tests.support import normal


@pytest.mark.parametrize("name", PRIORS)
def test_boxes_are_those_of_caffe(name: str, tmp_path: Path) -> None:
    parameters, options = PRIORS[name]
    found = run(read(save(tmp_path, prior_text(parameters))).model, {"x": normal(1, 2, *IMAGE)})["y"]
    places = (3, 5)
    image = options.get("image", IMAGE)
    expected = caffe.prior_box(places, image, **{key: value for key, value in options.items() if key != "image"})
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", DETECTIONS)
def test_detections_are_those_of_caffe(name: str, tmp_path: Path) -> None:
    settings = DETECTIONS[name]
    found = run(read(save(tmp_path, detector_text(settings))).model, detector_feed(settings))["y"]
    expected = detected(settings)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
