"""What ``converter_lite inspect`` shows of a description and of a weight file."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter_lite.cli.inspect import inspect
from converter_lite.errors import ModelError
from tests.formats.caffe.detectors import ssd
from tests.formats.caffe.networks import layer, net, save


def test_a_description_shows_its_layers_with_their_weights(tmp_path: Path) -> None:
    shown = inspect(save(tmp_path, *ssd())).splitlines()
    assert shown[0] == "Caffe network 'net', 42 layers in the TEST phase, weights in net.caffemodel"
    assert shown[3].split() == ["data", "1x3x64x64"]
    rows = {line.split()[1]: line for line in shown[6:]}
    assert rows["conv0"].split()[2:6] == ["Convolution", "data", "conv0", "8x3x3x3"]
    assert "num_output=8 bias_term=false" in rows["conv0"]
    assert rows["conv0/bn"].split()[5:] == ["8,", "8,", "1"]
    assert rows["conf_reshape"].endswith("shape={dim=0,-1,5}")


def test_a_description_without_weights_and_with_a_layer_of_nobody_is_shown(tmp_path: Path) -> None:
    path = save(tmp_path, net(layer("Magic", "magic_param { level: 9 }")) + 'input: "z"')
    path.with_suffix(".caffemodel").unlink()
    shown = inspect(path)
    assert "without net.caffemodel" in shown
    assert "Magic (refused)" in shown
    assert "level=9" in shown
    assert "\nz      ?" in shown


def test_a_weight_file_shows_its_blobs(tmp_path: Path) -> None:
    path = save(tmp_path, *ssd(), form="half").with_suffix(".caffemodel")
    shown = inspect(path).splitlines()
    assert shown[0].startswith("Caffe weights, 19 layers with blobs, ")
    assert ["conv0", "0", "float16", "8x3x3x3", "432"] in [line.split() for line in shown]


@pytest.mark.parametrize("name", ["net.prototxt", "net.caffemodel"])
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"layer { \x07")
    with pytest.raises(ModelError) as caught:
        inspect(path)
    assert str(path) in caught.value.where
