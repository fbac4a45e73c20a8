"""Networks: inputs, phases, the old format, names, layers in place, and where weights come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import ConverterError, ModelError, UsageError
from converter_lite.formats.caffe.network import MAX_BYTES, read_network
from tests.formats.caffe.networks import caffemodel, layer, net, read, run, save
from tests.support import normal

RELU = "\n" + layer("ReLU")


@pytest.mark.parametrize(
    "head",
    [
        'layer { name: "in" type: "Input" top: "x" input_param { shape: { dim: 2 dim: 3 dim: 4 dim: 5 } } }',
        'input: "x" input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5',
        'input: "x" input_shape { dim: [2, 3, 4, 5] }',
    ],
)
def test_inputs_are_described_in_three_ways(head: str, tmp_path: Path) -> None:
    model = read(save(tmp_path, head + RELU)).model
    assert [(v.name, tuple(v.shape or ())) for v in model.graph.inputs] == [("x", (2, 3, 4, 5))]


def test_several_inputs_have_shapes_of_their_own_or_one_for_all(tmp_path: Path) -> None:
    head = 'input: "x" input: "b" input_dim: [1, 2, 3, 4, 5, 6, 7, 8]\n'
    head += 'layer { name: "i" type: "Input" top: "c" top: "d" input_param { shape { dim: 9 } } }\n'
    model = read(save(tmp_path, head + RELU)).model
    assert [(v.name, tuple(v.shape or ())) for v in model.graph.inputs] == [
        ("x", (1, 2, 3, 4)),
        ("b", (5, 6, 7, 8)),
        ("c", (9,)),
        ("d", (9,)),
    ]
    assert [v.name for v in model.graph.outputs] == ["y"]


def test_a_shape_of_the_user_replaces_that_of_the_file(tmp_path: Path) -> None:
    path = save(tmp_path, net(layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }")))
    assert read(path).model.graph.outputs[0].shape == (2, 3, 3, 4)
    assert read(path, x=(1, 3, 9, 9)).model.graph.outputs[0].shape == (1, 3, 5, 5)


def test_an_input_without_a_shape_needs_one_of_the_user(tmp_path: Path) -> None:
    path = save(tmp_path, f'input: "x"\n{RELU}')
    with pytest.raises(UsageError, match="no shape for input 'x'") as caught:
        read(path)
    assert "--inputShape=x:" in caught.value.hint
    assert read(path, x=(4,)).model.graph.outputs[0].shape == (4,)


@pytest.mark.parametrize(("shapes", "sentence"), [({"z": (1,)}, "no input 'z'"), ({"x": (1, 2)}, "has 4 dimensions")])
def test_a_shape_that_does_not_fit_is_refused(
    shapes: dict[str, tuple[int, ...]], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=sentence):
        read(save(tmp_path, net(RELU)), **shapes)


RULES = {
    "include { phase: TEST }": True,
    "include { phase: TRAIN }": False,
    "include { phase: 1 }": True,
    "exclude { phase: TEST }": False,
    "exclude { phase: TRAIN }": True,
    "include { phase: TRAIN } include { phase: TEST }": True,
    "include { min_level: 1 }": False,
    "include { max_level: 0 }": True,
    "exclude { max_level: -1 }": True,
    'include { stage: "deploy" }': False,
    'include { not_stage: "deploy" phase: TEST }': True,
    "include { }": True,
}


@pytest.mark.parametrize("rule", RULES)
def test_layers_of_other_phases_are_left_out(rule: str, tmp_path: Path) -> None:
    text = net(layer("Power", f"power_param {{ scale: 2 }} {rule}", tops="x") + RELU)
    x = normal(2, 3, 6, 7)
    found = run(read(save(tmp_path, text)).model, {"x": x})["y"]
    np.testing.assert_array_equal(found, np.maximum(x, 0) * (2 if RULES[rule] else 1))


def test_a_network_may_have_stages_and_a_level(tmp_path: Path) -> None:
    text = net(layer("Power", 'power_param { scale: 2 } include { stage: "deploy" min_level: 2 }', tops="x") + RELU)
    x = normal(2, 3, 6, 7)
    found = run(read(save(tmp_path, text + 'state { level: 2 stage: "deploy" }')).model, {"x": x})["y"]
    np.testing.assert_array_equal(found, 2 * np.maximum(x, 0))


def test_a_blob_of_another_phase_is_missing_with_a_remedy(tmp_path: Path) -> None:
    text = layer("Data", "include { phase: TRAIN }", "", "x label") + layer("ReLU")
    with pytest.raises(ModelError, match="it reads 'x', which no layer before it writes") as caught:
        read(save(tmp_path, text))
    assert "deploy.prototxt" in caught.value.hint


OLD = """
name: "old" input: "x" input_dim: [1, 2, 4, 4]
layers { name: "conv" type: CONVOLUTION bottom: "x" top: "conv" blobs_lr: 1 weight_decay: 1
  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "gaussian" std: 0.01 } } }
layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
layers { name: "drop" type: 6 bottom: "conv" top: "conv" dropout_param { dropout_ratio: 0.5 } }
layers { name: "ip" type: INNER_PRODUCT bottom: "conv" top: "ip" inner_product_param { num_output: 2 } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip" bottom: "label" include { phase: TRAIN } }
layers { name: "prob" type: SOFTMAX bottom: "ip" top: "prob" }
"""


@pytest.mark.parametrize("form", ["old", "float"])
def test_the_format_of_2014_is_read(form: str, tmp_path: Path) -> None:
    w, b, v = normal(3, 2, 3, 3), normal(3, seed=2), normal(2, 12, seed=3)
    path = save(tmp_path, OLD, {"conv": (w, b), "ip": (v, np.zeros(2))}, form=form, old=True)
    x = normal(1, 2, 4, 4, seed=4)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
    hidden = np.maximum(np.einsum("cijkl,ockl->oij", windows, w) + b[:, None, None], 0)
    scores = np.exp(v @ hidden.reshape(-1))
    np.testing.assert_allclose(run(read(path).model, {"x": x})["prob"][0], scores / scores.sum(), rtol=1e-5)


IN_PLACE = net(
    layer("Convolution", "convolution_param { num_output: 3 kernel_size: 1 }", "x", "c", "conv")
    + layer("BatchNorm", "", "c", "c", "bn")
    + layer("Scale", "scale_param { bias_term: true }", "c", "c", "scale")
    + layer("ReLU", "", "c", "c", "relu")
    + layer("Dropout", "", "c", "c", "drop")
    + layer("Power", "power_param { scale: 2 }", "c", "d", "power")
    + layer("Eltwise", "", "c d", "sum", "sum"),
    1,
    2,
    3,
    3,
)


def test_layers_in_place_keep_the_name_of_their_blob_for_what_it_holds_last(tmp_path: Path) -> None:
    ones = np.ones(3)
    weights = {"conv": (normal(3, 2, 1, 1), ones), "bn": (0 * ones, ones, ones[:1]), "scale": (ones, ones)}
    graph = read(save(tmp_path, IN_PLACE, weights)).model.graph
    assert [node.name for node in graph] == ["conv", "bn", "relu", "power", "sum"]
    assert [node.outputs[0].name for node in graph] == ["c.conv", "c.scale", "c", "d", "sum"]
    assert {"conv.weight", "conv.bias", "bn.mean", "bn.variance", "scale.scale", "scale.bias"} <= set(
        graph.initializers
    )
    assert graph.name == "net"


def test_an_input_may_be_written_in_place(tmp_path: Path) -> None:
    text = net(layer("Power", "power_param { scale: 2 }", "x", "x") + RELU + layer("ReLU", "", "x", "x", "again"))
    model = read(save(tmp_path, text)).model
    x = normal(2, 3, 6, 7)
    found = run(model, {"x": x})
    assert sorted(found) == ["x.again", "y"]
    for array in found.values():
        np.testing.assert_array_equal(array, 2 * np.maximum(x, 0))


def test_outputs_are_the_blobs_that_nobody_reads_by_name(tmp_path: Path) -> None:
    text = net(layer("Slice", "", tops="c b a") + layer("Split", "", "b", "d e"))
    model = read(save(tmp_path, text)).model
    assert [value.name for value in model.graph.outputs] == ["a", "c", "d", "e"]
    x = normal(2, 3, 6, 7)
    found = run(model, {"x": x})
    for name, index in (("a", 2), ("c", 0), ("d", 1), ("e", 1)):
        np.testing.assert_array_equal(found[name], x[:, index : index + 1])


def test_layers_may_have_one_name_or_none(tmp_path: Path) -> None:
    layers = layer("ReLU", tops="a", name="same") + layer("Sigmoid", "", "a", "b", "same")
    layers += 'layer { type: "TanH" bottom: "b" top: "y" }'
    graph = read(save(tmp_path, net(layers))).model.graph
    assert [node.name for node in graph] == ["same", "same_1", "Tanh"]


def test_of_layers_with_one_name_the_first_has_the_weights(tmp_path: Path) -> None:
    text = net(layer("PReLU", tops="a") + layer("PReLU", "", "a"))
    with pytest.raises(ModelError, match="has nothing for 'prelu'"):
        read(save(tmp_path, text, {"prelu": (normal(3),)}))


@pytest.mark.parametrize("text", ["\ufeff" + net(RELU), net(RELU).replace("\n", "\r\n"), "# 图\n" + net(RELU)])
def test_marks_of_editors_do_no_harm(text: str, tmp_path: Path) -> None:
    assert len(read(save(tmp_path, text)).model.graph) == 1


def test_a_comment_in_another_encoding_does_no_harm() -> None:
    assert len(read_network("# 图层\n".encode("gbk") + net(RELU).encode()).layers) == 1


def test_a_network_without_weights_needs_no_weight_file(tmp_path: Path) -> None:
    path = save(tmp_path, net(RELU))
    path.with_suffix(".caffemodel").unlink()
    assert read(path).bytes == path.stat().st_size


PRELU = net(layer("PReLU"))


def test_weights_are_found_beside_the_description_or_where_the_user_says(tmp_path: Path) -> None:
    path = save(tmp_path, PRELU, {"prelu": (normal(3),)})
    beside = path.with_suffix(".caffemodel")
    assert read(path).bytes == path.stat().st_size + beside.stat().st_size
    other = tmp_path / "snapshot_iter_100.caffemodel"
    beside.rename(other)
    assert len(read(path, other).model.graph) == 1
    with pytest.raises(UsageError, match=r"net\.caffemodel does not exist") as caught:
        read(path)
    assert str(other) in caught.value.hint
    (tmp_path / "third.caffemodel").write_bytes(other.read_bytes())
    with pytest.raises(UsageError) as caught:
        read(path)
    assert caught.value.hint == "give it with --weightFile"
    with pytest.raises(UsageError, match="the weight file does not exist"):
        read(path, tmp_path / "nowhere.caffemodel")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it describes no layers"),
        ('name: "x"', "it describes no layers"),
        ("\0", "this is a binary file"),
        ("#" * (MAX_BYTES + 1), "a description of"),
        ('net: "train.prototxt" base_lr: 0.1', "this describes a training"),
        (net(RELU) + "layers { }", "the present and in the old format"),
        (net(RELU) + "lair { }", "a network has no field lair; did you mean layer?"),
        ('layers { layer { name: "conv" type: "conv" } }', "first format of Caffe"),
        ('layers { name: "a" type: MAGIC }', "type is 'MAGIC'"),
        ("layer { }", "a layer without a type"),
        ('input: "x" input_dim: [1, 2, 3]' + RELU, "1 inputs and shapes for 0.75"),
        ('input: "x" input_shape { } input_shape { }' + RELU, "1 inputs and shapes for 2"),
        (net(RELU, name="x") + net("", name="x"), "two inputs have the name 'x'"),
        (net(RELU, 0), "has the shape \\[0\\]"),
        (net(RELU, 1 << 16, 1 << 16), "more elements than a tensor can have"),
        (net(layer("ReLU", "include { } exclude { }")), "rules of both kinds"),
        (net(layer("ReLU", "include { phase: SOON }")), "phase is 'SOON'"),
        (net(layer("Silence", "", "x", "")), "the network computes nothing"),
        ('layer { type: "Input" top: "x" input_param { shape { } shape { } } }' + RELU, "it has 1 tops and 2 shapes"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConverterError, match=sentence) as caught:
        read(save(tmp_path, text))
    assert str(tmp_path / "net.prototxt") in caught.value.where


def test_weights_of_another_network_are_named(tmp_path: Path) -> None:
    text = net("".join(layer("PReLU", name=f"p{i}", bottoms=f"b{i}" if i else "x", tops=f"b{i + 1}") for i in range(7)))
    with pytest.raises(ModelError, match="nothing for 'p1', 'p2', 'p3', 'p4', 'p5' and 1 others") as caught:
        read(save(tmp_path, text, {"p0": (normal(3),)}))
    assert "of different networks" in caught.value.hint


def test_a_weight_file_in_place_of_the_description_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.caffemodel"
    path.write_bytes(caffemodel({"a": (normal(3),)}))
    with pytest.raises(ModelError, match="this is a binary file") as caught:
        read(path)
    assert "--modelFile names the .prototxt" in caught.value.hint


def test_fields_beside_the_parameters_that_caffe_does_not_have_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = "propagate_down: false loss_weight: 1 include { phase: TEST } dropout_param { dropout_ratio: 0.5 }"
    layers = (
        layer("ReLU", f"{own} relu_parm {{ negative_slope: 0.1 }}", name="first")
        + layer("ReLU", "need_quantize: true", "y", "z", "second")
        + layer("TanH", "need_quantize: true tanh_param { engine: CAFFE }", "z", "w", "third")
    )
    read(save(tmp_path, net(layers)))
    (count, misspelt) = [record.getMessage() for record in caplog.records]
    assert count.endswith("layer 'second' (ReLU): its field need_quantize (and that of 1 more) is not read")
    assert misspelt.endswith("layer 'first' (ReLU): its field relu_parm is not read; did you mean relu_param?")
