"""What a model or a folder of samples may read: nothing outside its folder, unless the user says so."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter_lite.cli.opt import cli as opt
from tests.cli.workshop import FULL, WEIGHT, Workshop, command, ini, model_proto
from tests.formats.paddle.inference_models import save_with_variable
from tests.support import normal


def save_with_data(folder: Path, location: str) -> None:
    """``model.onnx`` in the folder, with its weights in the file that ``location`` names."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(
        model_proto(), folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    proto = onnx.load(folder / "model.onnx", load_external_data=False)
    for tensor in proto.graph.initializer:
        tensor.external_data[0].value = location
    onnx.save(proto, folder / "model.onnx")
    target = folder / location
    target.parent.mkdir(parents=True, exist_ok=True)
    (folder / "weights.bin").rename(target)


@pytest.mark.parametrize("absolute", [False, True])
def test_weights_outside_the_models_folder_need_permission(workshop: Workshop, absolute: bool) -> None:
    location = str(workshop.folder / "secret" / "w.bin") if absolute else "../secret/w.bin"
    save_with_data(workshop.folder / "zoo", location)
    err = workshop.fail(1, model="zoo/model.onnx")
    assert "points outside the model's folder" in err
    assert "--allowExternalPaths" in err


def test_weights_outside_the_models_folder_are_read_with_permission(workshop: Workshop) -> None:
    save_with_data(workshop.folder / "zoo", "../secret/w.bin")
    workshop.succeed("--allowExternalPaths", model="zoo/model.onnx")


@pytest.mark.parametrize("flag", ["--outputFile=zoo/out", "--json=zoo/out.onnx", "--report=zoo/out.onnx"])
def test_weights_beside_a_model_are_not_overwritten(workshop: Workshop, flag: str) -> None:
    save_with_data(workshop.folder / "zoo", "out.onnx")
    before = workshop.content()
    name, _, value = flag.partition("=")
    flags = {"--outputFile": "zoo/other", name: value, "--modelFile": "zoo/model.onnx", "--fmk": "ONNX"}
    Path("w.cfg").write_text(ini(WEIGHT), encoding="utf-8")
    outcome = command(*(f"{key}={text}" for key, text in flags.items()), "--configFile=w.cfg")
    assert outcome.status == 2
    assert "zoo/out.onnx: the output would overwrite an input" in outcome.err
    assert workshop.content() == {**before, "w.cfg": Path("w.cfg").read_bytes()}


def test_a_link_to_weights_elsewhere_needs_permission(workshop: Workshop) -> None:
    save_with_data(workshop.folder / "zoo", "../secret/w.bin")
    save_with_data(workshop.folder / "zoo", "w.bin")
    (workshop.folder / "zoo" / "w.bin").unlink()
    (workshop.folder / "zoo" / "w.bin").symlink_to(workshop.folder / "secret" / "w.bin")
    assert "points outside" in workshop.fail(1, model="zoo/model.onnx")
    workshop.succeed("--allowExternalPaths", model="zoo/model.onnx")


def test_a_model_that_is_a_link_finds_its_weights_where_it_leads_and_where_it_stands(workshop: Workshop) -> None:
    save_with_data(workshop.folder / "blobs", "weights")
    snapshot = workshop.folder / "snapshot"
    snapshot.mkdir()
    for name in ("model.onnx", "weights"):
        (snapshot / name).symlink_to(workshop.folder / "blobs" / name)
    workshop.succeed(model="snapshot/model.onnx")


def test_weights_with_a_second_name_are_read(workshop: Workshop) -> None:
    save_with_data(workshop.folder / "zoo", "w.bin")
    (workshop.folder / "zoo" / "copy.bin").hardlink_to(workshop.folder / "zoo" / "w.bin")
    workshop.succeed(model="zoo/model.onnx", config=FULL)


def test_constants_in_nodes_are_held_to_the_same_rule(workshop: Workshop) -> None:
    (workshop.folder / "secret.bin").write_bytes(normal(4).tobytes())
    tensor = numpy_helper.from_array(normal(4), "c")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")
    nodes = [
        helper.make_node("Constant", [], ["c"], name="stolen", value=tensor),
        helper.make_node("Add", ["x", "c"], ["y"], name="add"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    proto = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]))
    (workshop.folder / "zoo").mkdir()
    (workshop.folder / "zoo" / "model.onnx").write_bytes(proto.SerializeToString())
    assert "points outside the model's folder: ../secret.bin" in workshop.fail(1, model="zoo/model.onnx")


def test_samples_that_are_links_out_of_their_folder_need_permission(workshop: Workshop) -> None:
    bins = workshop.folder / "bins"
    (bins / "001.bin").rename(workshop.folder / "elsewhere.bin")
    (bins / "001.bin").symlink_to(workshop.folder / "elsewhere.bin")
    (bins / "002.bin").unlink()
    (bins / "002.bin").symlink_to(bins / "003.bin")
    err = workshop.fail(1, config=FULL)
    assert "links to files outside the directory: 001.bin\n" in err
    assert "--allowExternalPaths" in err
    workshop.succeed("--allowExternalPaths", config=FULL)


@pytest.mark.parametrize("config", [None, FULL])
def test_opt_reads_outside_the_models_folder_with_permission_only(
    workshop: Workshop, config: dict[str, dict[str, str]] | None
) -> None:
    save_with_data(workshop.folder / "zoo", "../secret/w.bin")
    flags = ["--model_file=zoo/model.onnx", "--optimize_out=out"]
    if config is not None:
        (workshop.folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
        flags.append("--configFile=quant.cfg")
    refused = command(*flags, program=opt)
    assert refused.status == 1
    assert "points outside the model's folder" in refused.err
    assert not (workshop.folder / "out.nb").exists()
    assert command(*flags, "--allowExternalPaths", program=opt).status == 0
    assert (workshop.folder / "out.nb").exists()


def test_opt_lists_operators_of_a_paddle_model_with_variables_elsewhere(workshop: Workshop) -> None:
    save_with_variable(workshop.folder / "zoo", "../w", workshop.folder / "w")
    flags = ["--model_dir=zoo", "--print_model_ops=true"]
    assert command(*flags, program=opt).status == 1
    assert command(*flags, "--allowExternalPaths=true", program=opt).status == 0


@pytest.mark.parametrize("kernels", [[], ["--kernels"]])
def test_a_file_with_weights_elsewhere_is_inspected_with_permission_only(
    workshop: Workshop, kernels: list[str]
) -> None:
    save_with_data(workshop.folder / "zoo", "../secret/w.bin")
    refused = command("inspect", "zoo/model.onnx", *kernels)
    assert refused.status == 1
    assert "--allowExternalPaths" in refused.err
    assert command("inspect", "zoo/model.onnx", *kernels, "--allowExternalPaths").status == 0
