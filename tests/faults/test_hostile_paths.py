"""Files that name other files: nothing outside their folder is read, and nothing is written where they say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from converter_lite.analysis.recorded import read_recorded
from converter_lite.data.inputs import InputSpec
from converter_lite.errors import DataError, ModelError
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from tests.cli.workshop import FULL, Workshop, changed, command, model_proto
from tests.faults.hostile import VALUES, save_graph, stolen_tensor
from tests.formats.paddle.inference_models import save_with_variable
from tests.support import normal


@pytest.mark.parametrize("place", ["function", "branch", "list"])
def test_external_data_are_held_to_their_folder_wherever_a_tensor_may_stand(tmp_path: Path, place: str) -> None:
    (tmp_path / "secret.bin").write_bytes(normal(4).tobytes())
    (tmp_path / "zoo").mkdir()
    inner = [helper.make_node("Constant", [], ["c"], value=stolen_tensor()), helper.make_node("Add", ["x", "c"], ["y"])]
    opsets = [helper.make_opsetid("", 13)]
    path = tmp_path / "zoo" / "model.onnx"
    if place == "function":
        function = helper.make_function("own", "f", ["x"], ["y"], inner, opsets)
        save_graph(path, [helper.make_node("f", ["x"], ["y"], domain="own")], functions=[function])
    elif place == "branch":
        then = helper.make_graph(inner, "then", [], VALUES[1:])
        flag = helper.make_node("Constant", [], ["flag"], value=numpy_helper.from_array(np.array(True)))
        choice = helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=then)
        save_graph(path, [flag, choice])
    else:
        node = helper.make_node("f", ["x"], ["y"], domain="own", name="n")
        node.attribute.append(helper.make_attribute("tensors", [stolen_tensor()]))
        save_graph(path, [node])
    with pytest.raises(ModelError, match="points outside the model's folder"):
        read_onnx(path)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("location", "a\0b", "points outside"),
        ("location", "", "is missing"),
        ("location", "a" * 5000, "File name too long|is missing"),
        ("offset", "-8", "no number of bytes"),
        ("length", "-8", "no number of bytes"),
        ("offset", "99999999999999999999", "too short"),
        ("offset", "x", "no number of bytes"),
    ],
)
def test_places_of_external_data_that_make_no_sense_are_refused(
    workshop: Workshop, key: str, value: str, told: str
) -> None:
    (workshop.folder / "w").write_bytes(normal(4).tobytes())
    tensor = stolen_tensor()
    tensor.external_data[0].value = "w"
    if key == "location":
        tensor.external_data[0].value = value
    else:
        tensor.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Constant", [], ["c"], value=tensor), helper.make_node("Add", ["x", "c"], ["y"])]
    save_graph(workshop.folder / "model.onnx", nodes)
    assert re.search(told, workshop.fail(1))


def test_a_sample_that_is_a_link_to_itself_is_refused(workshop: Workshop) -> None:
    (workshop.folder / "bins" / "001.bin").unlink()
    (workshop.folder / "bins" / "001.bin").symlink_to("001.bin")
    assert workshop.convert(config=FULL).status == 1


def test_recorded_samples_are_read_from_their_own_file_only(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(normal(4).tobytes())
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "input_0.pb").write_bytes(stolen_tensor().SerializeToString())
    with pytest.raises(DataError, match="in another file"):
        read_recorded(tmp_path / "zoo", [InputSpec("c", np.dtype(np.float32), (4,))], limit=1)


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "{absolute}", "link"])
def test_parameters_of_a_paddle_model_are_read_from_its_folder_only(tmp_path: Path, name: str) -> None:
    name = name.replace("{absolute}", str(tmp_path / "secret"))
    save_with_variable(tmp_path / "zoo", name, tmp_path / "secret")
    (tmp_path / "zoo" / "a").mkdir()
    (tmp_path / "zoo" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="outside the model's folder") as refused:
        read_paddle(tmp_path / "zoo")
    assert "--allowExternalPaths" in refused.value.hint
    assert read_paddle(tmp_path / "zoo", confined=False).model.graph.initializers


def test_the_flag_reaches_paddle_models(workshop: Workshop) -> None:
    save_with_variable(workshop.folder / "zoo", "../w", workshop.folder / "w")
    flags = ["--fmk=PADDLE", "--modelFile=zoo", "--outputFile=out", "--saveType=ONNX"]
    assert command(*flags).status == 1
    assert command(*flags, "--allowExternalPaths").status == 0


def test_a_batch_does_not_read_devices_that_a_model_calls_its_data(workshop: Workshop) -> None:
    tensor = stolen_tensor()
    tensor.external_data[0].value = "/dev/zero"
    nodes = [helper.make_node("Constant", [], ["c"], value=tensor), helper.make_node("Add", ["x", "c"], ["y"])]
    save_graph(workshop.folder / "model.onnx", nodes)
    outcome = command("batch", "model.onnx", "--outputDir=results")
    assert outcome.status == 1
    assert "points outside the model's folder: /dev/zero" in outcome.out


def test_reports_have_fixed_names_whatever_the_nodes_are_called(workshop: Workshop) -> None:
    proto = model_proto()
    for node in proto.graph.node:
        node.name = f"../../{node.name}"
    onnx.save(proto, "model.onnx")
    workshop.succeed(config=changed(FULL, common_quant_param={"debug_info_save_path": "reports/deep"}))
    names = {path.name for path in (workshop.folder / "reports" / "deep").iterdir()}
    assert names >= {"round_0.csv", "quant_param.csv"}
    assert not any("node" in name for name in names)
    assert not list(workshop.folder.parent.glob("node_*"))
