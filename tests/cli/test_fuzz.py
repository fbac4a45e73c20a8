"""Damaged command lines, configurations and models: always a clear end, never a traceback or a defect."""

import random

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Workshop, command, ini

CASES = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

FLAGS = [
    *("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", "--configFile=quant.cfg", "--inputShape=x:1,3,8,8"),
    *("--inputDataFormat=NHWC", "--inputDataType=FLOAT", "--outputDataType=FLOAT16", "--fp16=on", "--optimize=general"),
    *("--saveType=ONNX", "--infer=true", "--minCosine=0.5", "--json=r.json", "--threads=2", "--savePlan=p.json"),
    *("--dryRun", "-v", "--quiet", "template", "full_quant", "--encryption=false", "--weightFile=w", "--device=GPU"),
]
PIECES = st.sampled_from([*"=:;,-~[]'\"\\/. 0129exXN\0\n", "--", "1e999", "é", "型", "\ud800", "9" * 50, "nan", "../"])


@CASES
@given(st.data())
def test_a_mutated_command_line_ends_with_a_status(workshop: Workshop, data: st.DataObject) -> None:
    (workshop.folder / "quant.cfg").write_text(ini(FULL), encoding="utf-8")
    chosen = data.draw(st.lists(st.sampled_from(FLAGS), min_size=1, max_size=6, unique=True))
    arguments = [*FLAGS[:3], *(flag for flag in chosen if flag not in FLAGS[:3])]
    for _ in range(data.draw(st.integers(1, 3))):
        which = data.draw(st.integers(0, len(arguments) - 1))
        text = arguments[which]
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 3))
        arguments[which] = text[:start] + data.draw(PIECES) + text[start + length :]
    model = workshop.model.read_bytes()
    assert command(*arguments).status in (0, 1, 2)
    assert workshop.model.read_bytes() == model


@CASES
@given(st.lists(st.text(max_size=12), max_size=4))
def test_random_arguments_end_with_a_status(workshop: Workshop, arguments: list[str]) -> None:
    assert command(*arguments).status in (0, 1, 2)


@pytest.mark.parametrize("config", [None, FULL, WEIGHT, DYNAMIC])
@pytest.mark.parametrize("seed", range(25))
def test_a_model_with_damaged_bytes_ends_with_a_status(
    workshop: Workshop, config: dict[str, dict[str, str]], seed: int
) -> None:
    _damage(workshop, seed)
    outcome = workshop.convert(config=config)
    assert outcome.status in (0, 1, 2), outcome.err
    assert (workshop.folder / "out.onnx").exists() == (outcome.status == 0)


def edits(rng: random.Random, proto: onnx.ModelProto) -> None:
    """One structural damage."""
    graph = proto.graph
    node = rng.choice(graph.node)
    choice = rng.randrange(12)
    if choice == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(["", "x", "y", "w_fc", "absent"])
    elif choice == 1 and node.input:
        del node.input[-1]
    elif choice == 2:
        node.output[0] = rng.choice(["", "x", "y", "conv_out"])
    elif choice == 3:
        node.op_type = rng.choice(["Relu", "Add", "Conv", "MatMul", "Softmax", "Loop", "", "Resize"])
    elif choice == 4:
        del graph.node[rng.randrange(len(graph.node))]
    elif choice == 5:
        del graph.initializer[rng.randrange(len(graph.initializer))]
    elif choice == 6:
        tensor = rng.choice(graph.initializer)
        tensor.dims[0] = rng.choice([0, 1, -1, 10**9, tensor.dims[0] + 1])
    elif choice == 7:
        rng.choice(graph.initializer).data_type = rng.choice([0, 2, 7, 8, 10, 16, 99])
    elif choice == 8:
        graph.input[0].type.tensor_type.shape.dim[rng.randrange(4)].dim_value = rng.choice([0, 1, 5, -1])
    elif choice == 9:
        graph.input[0].type.tensor_type.elem_type = rng.choice([0, 2, 7, 8, 10, 11, 99])
    elif choice == 10:
        node.attribute.append(
            onnx.helper.make_attribute(
                rng.choice(["pads", "group", "axis", "strides"]), rng.choice([0, -7, [1], 2.5, "a"])
            )
        )
    else:
        graph.output[0].name = rng.choice(["x", "relu_out", "absent", ""])


@pytest.mark.parametrize("seed", range(100))
def test_a_model_with_a_damaged_graph_ends_with_a_status(workshop: Workshop, seed: int) -> None:
    rng = random.Random(seed)
    proto = onnx.load("model.onnx")
    for _ in range(rng.randint(1, 2)):
        edits(rng, proto)
    workshop.model.write_bytes(proto.SerializeToString())
    formats = rng.choice(["ONNX", "MINDIR_LITE", "NAIVE_BUFFER", "MINDIR_LITE,ONNX"])
    outcome = workshop.convert(f"--saveType={formats}", config=rng.choice([None, FULL, WEIGHT, DYNAMIC]))
    assert outcome.status in (0, 1, 2), outcome.err
    endings = {"ONNX": "onnx", "MINDIR_LITE": "ms", "NAIVE_BUFFER": "nb"}
    for name in formats.split(","):
        assert (workshop.folder / f"out.{endings[name]}").exists() == (outcome.status == 0)


def test_damage_that_first_shows_in_the_work_on_a_large_model_is_told_as_that(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("converter_lite.pipeline.prove.LARGE_MODEL", 0)  # the runtime loads it after the work only
    _damage(workshop, 19)
    outcome = workshop.convert(config=FULL)
    assert outcome.status == 1
    assert outcome.err.startswith("ERROR onnxruntime cannot load the model: "), outcome.err


def _damage(workshop: Workshop, seed: int) -> None:
    """Change up to four bytes of the model."""
    rng = random.Random(seed)
    content = bytearray(workshop.model.read_bytes())
    # The numbers are most of the file; what surrounds them is more fragile.
    graph = onnx.load("model.onnx")
    del graph.graph.initializer[:]
    fragile = min(len(graph.SerializeToString()), len(content))
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(fragile)] = rng.randrange(256)
    workshop.model.write_bytes(bytes(content))
