"""Integer weights of recurrent layers in the released libraries: they give what the file says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.nb.reader import read
from tests.formats.paddle.plans import plan_weights
from tests.formats.paddle.test_recurrent_weights import GATES, recurrent
from tests.formats.paddle.writing import write
from tests.runtimes.conftest import Tally
from tests.runtimes.paddle import RELEASES, Case, require, run_cases
from tests.runtimes.paddle_arm import ARM64, run_on_arm
from tests.support import random_feed, run

pytestmark = pytest.mark.runtime

cases = pytest.mark.parametrize(
    ("kind", "both", "bits"), [(kind, both, bits) for kind in GATES for both in (False, True) for bits in (8, 16)]
)


@pytest.mark.parametrize("release", RELEASES)
@cases
def test_x86(release: str, kind: str, both: bool, bits: int, tally: Tally, tmp_path: Path) -> None:
    require(release)
    tally(f"Paddle-Lite {release}, x86", "recurrent layers, weights")
    model = recurrent(kind, both=both)
    data = write(plan_weights(model, target="x86", bits=bits), options=NbOptions("x86"))
    feed = random_feed(model)
    (found,) = run_cases(release, [Case(data, list(feed.values()), 1)], tmp_path)
    assert not isinstance(found, str), found
    np.testing.assert_allclose(found[0], run(read(data).model, feed)["y"], atol=1e-5)


@pytest.mark.usefixtures("nb_arm")
@cases
def test_arm64(kind: str, both: bool, bits: int, tally: Tally, tmp_path: Path) -> None:
    tally(ARM64, "recurrent layers, weights")
    model = recurrent(kind, both=both)
    data = write(plan_weights(model, target="arm", bits=bits), options=NbOptions("arm"))
    feed = random_feed(model)
    found = run_on_arm(data, feed, tmp_path)
    assert not isinstance(found, str), found
    np.testing.assert_allclose(found[0], run(read(data).model, feed)["y"], atol=1e-5)
