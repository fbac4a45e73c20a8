import numpy as np
import pytest

from converter_lite.formats.mindspore_lite.enums import ActivationType as Kind
from converter_lite.formats.mindspore_lite.exporter.clamps import LEAST_SCALE, inner_activation
from converter_lite.kernels.params import QuantParams, QuantSpec
from tests.support import build


@pytest.mark.parametrize(
    ("scale", "kind"), [(None, Kind.RELU6), (0.02, Kind.RELU6), (LEAST_SCALE * 1.01, Kind.RELU6), (1e-20, Kind.RELU)]
)
def test_a_relu6_of_very_fine_integers_is_a_relu(scale: float | None, kind: Kind) -> None:
    """On x86 the runtime's bound would be no 32-bit integer, and everything zero."""
    clip = build("g (float[4] x) => (float[4] y) { y = Clip(x, low, six) }", low=np.float32(0), six=np.float32(6))
    params = None if scale is None else QuantParams(np.float32(scale), np.int32(-128), QuantSpec(8))
    assert inner_activation(next(iter(clip.graph)), params) is kind
