"""The three files of a debug report."""

from __future__ import annotations

import csv
import io
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ConverterError, DataError
from converter_lite.log import NORMAL, Log
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.reports import observation
from converter_lite.reports.debug_csv import DebugReport
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from tests.reports.models import CONV_RELU, SAMPLE, activation, conv_relu, plan, weight
from tests.support import build, clone, normal

QUANT_PARAM = """\
NodeName,NodeType,TensorName,ElementsNum,Dims,Scale,ZeroPoint,Bits,CorrectionVar,CorrectionMean,
conv,Conv,x,4,1 1 2 2 ,0.5,4,8,1,0,
conv,Conv,w,2,2 1 1 1 ,0.5,0,8,1,0,
conv,Conv,w,2,2 1 1 1 ,0.25,0,8,1,0,
conv,Conv,y,8,1 2 2 2 ,0.25,0,8,1,0,
"""

# x: float -1 0 0.6 2, quantized in steps of 0.5; y: float 0 0 0.6 2 0.5 0 0 0, from the quantized x 0 0 0.5 2 0.5 0 0 0.
ROUND = """\
,NodeName,NodeType,TensorName,InOutFlag,DataTypeFlag,TensorTypeFlag,Min,Q1,Median,Q3,Max,Mean,Var,Sparsity,Clip,CosineSimilarity,
0,conv,Conv,x,Input,Origin,Activation,-1,0,0.6,2,2,0.4,1.08628,0.25,0,1,
1,conv,Conv,x,Input,Dequant,Activation,-1,0,0.5,2,2,0.375,1.08253,0.25,0,0.999111,
2,conv,Conv,w,Input,Origin,Weight,-0.5,-0.5,1,1,1,0.25,0.75,0,0,1,
3,conv,Conv,w,Input,Dequant,Weight,-0.5,-0.5,1,1,1,0.25,0.75,0,0,1,
4,conv,Conv,y,Output,Origin,Activation,0,0,0,0.6,2,0.3875,0.652759,0.625,0,1,
5,conv,Conv,y,Output,Dequant,Activation,0,0,0,0.5,2,0.375,0.649519,0.625,0,0.998975,
"""

SUMMARY = """\
Round,TensorName,CosineSimilarity,
0,y,0.998975,
"""


def write(
    folder: Path, quantized: QuantizedModel, samples: Any, *, threads: int = 1, log: Log | None = None, **options: Any
) -> list[Path]:
    report = DebugReport(folder, quantized, context=RunContext(threads=threads, log=log or Log()), **options)
    return report.write(samples)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def product(mode: NodeMode, *, inputs: str = "float[2,3] x") -> QuantizedModel:
    """``y = x @ w`` with an integer weight."""
    model = build(f"g ({inputs}) => (float[N,4] y) {{ [product] y = MatMul(x, w) }}", w=normal(3, 4))
    made = plan(model, product=mode)
    made.weights = {"w": weight([0.02, 0.03, 0.02, 0.03], axis=1)}
    return QuantizedModel(model, made)


def test_the_files_of_a_small_network_are_these(tmp_path: Path) -> None:
    files = write(tmp_path, conv_relu(), [SAMPLE])
    assert contents(tmp_path) == {"output_summary.csv": SUMMARY, "quant_param.csv": QUANT_PARAM, "round_0.csv": ROUND}
    assert files == [tmp_path / name for name in ("round_0.csv", "output_summary.csv", "quant_param.csv")]


def test_every_row_ends_with_a_comma_and_has_the_fields_of_its_header(tmp_path: Path) -> None:
    write(tmp_path, conv_relu(), [SAMPLE])
    for text in contents(tmp_path).values():
        header, *lines = text.splitlines()
        assert all(line.endswith(",") and line.count(",") == header.count(",") for line in lines)


def test_integer_plans_have_one_round_per_sample(tmp_path: Path) -> None:
    samples = [{"x": SAMPLE["x"] * factor} for factor in (1.0, 0.5, 0.0)]
    write(tmp_path, conv_relu(), samples)
    assert [name for name in contents(tmp_path) if name.startswith("round_")] == [f"round_{i}.csv" for i in range(3)]
    summary = rows(tmp_path / "output_summary.csv")
    assert [row["Round"] for row in summary] == ["0", "1", "2"]
    assert summary[2]["CosineSimilarity"] == "1"  # zeros in both models
    assert [rows(tmp_path / f"round_{i}.csv")[0]["Max"] for i in range(3)] == ["2", "1", "0"]


@pytest.mark.parametrize("mode", [NodeMode.WEIGHT, NodeMode.DYNAMIC])
def test_weight_and_dynamic_plans_have_one_round_of_the_first_sample(tmp_path: Path, mode: NodeMode) -> None:
    quantized = product(mode)
    first = normal(2, 3, seed=5)
    write(tmp_path, quantized, iter([{"x": first}, {"x": first * 0}]))
    assert list(contents(tmp_path)) == ["output_summary.csv", "quant_param.csv", "round_0.csv"]
    found = rows(tmp_path / "round_0.csv")
    assert [(row["TensorName"], row["InOutFlag"], row["TensorTypeFlag"]) for row in found[::2]] == [
        ("w", "Input", "Weight"),
        ("y", "Output", "Activation"),
    ]
    array = normal(3, 4)
    params = quantized.plan.weights["w"]
    assert float(found[1]["Max"]) == pytest.approx(float(params.fake_quantize(array).max()), rel=1e-5)
    assert float(found[2]["Max"]) == pytest.approx(float((first @ array).max()), rel=1e-5)
    assert 0.9 < float(found[3]["CosineSimilarity"]) < 1.0
    assert [row["Scale"] for row in rows(tmp_path / "quant_param.csv")] == ["0.02", "0.03", "0.02", "0.03"]


def test_integers_of_a_rounding_search_are_the_dequantized_weight(tmp_path: Path) -> None:
    quantized = product(NodeMode.WEIGHT)
    quantized.q_weights["w"] = np.full((3, 4), 7, np.int32)
    write(tmp_path, quantized, [{"x": normal(2, 3)}])
    dequantized = rows(tmp_path / "round_0.csv")[1]
    assert (dequantized["Min"], dequantized["Max"]) == ("0.14", "0.21")


def test_clip_shows_activations_beyond_the_range_of_the_calibration(tmp_path: Path) -> None:
    quantized = conv_relu()
    quantized.plan.activations["x"] = activation(0.001, 0)
    write(tmp_path, quantized, [SAMPLE])
    origin, dequantized = rows(tmp_path / "round_0.csv")[:2]
    assert (origin["Clip"], dequantized["Clip"]) == ("0", "0.75")  # all but 0 lie outside 0..0.255
    assert dequantized["Max"] == "0.255"


def test_corrections_in_the_biases_do_not_move_the_origin_when_the_float_model_is_given(tmp_path: Path) -> None:
    text = CONV_RELU.replace("(x, w)", "(x, w, b)")
    weights = np.array([1.0, -0.5], np.float32).reshape(2, 1, 1, 1)
    reference = build(text, w=weights, b=np.zeros(2, np.float32))
    quantized = QuantizedModel(clone(reference), conv_relu().plan)
    corrected = np.array([5.0, 5.0], np.float32)
    quantized.model.graph.initializers["b"].const_value = ir.Tensor(corrected, name="b")
    write(tmp_path / "given", quantized, [SAMPLE], reference=reference)
    write(tmp_path / "default", quantized, [SAMPLE])
    assert rows(tmp_path / "given" / "round_0.csv")[4]["Max"] == "2"
    assert rows(tmp_path / "default" / "round_0.csv")[4]["Max"] == "7"


def test_dims_that_the_graph_leaves_open_are_those_of_the_first_sample(tmp_path: Path) -> None:
    quantized = product(NodeMode.INTEGER, inputs="float[N,3] x")
    quantized.plan.activations = {"x": activation(0.05, 128), "y": activation(0.05, 128)}
    write(tmp_path, quantized, [{"x": normal(2, 3)}, {"x": normal(7, 3)}])
    found = {row["TensorName"]: (row["ElementsNum"], row["Dims"]) for row in rows(tmp_path / "quant_param.csv")}
    assert found == {"x": ("6", "2 3 "), "w": ("12", "3 4 "), "y": ("8", "2 4 ")}


def test_outputs_whose_size_depends_on_the_data_have_no_cosine(tmp_path: Path) -> None:
    text = CONV_RELU.replace("(float[1,2,2,2] y)", "(int64[4,M] places)").replace(
        "Relu(c)", "Relu(c) places = NonZero(y)"
    )
    quantized = conv_relu(text)
    small = {"x": np.array([0.2, 0.0, 0.0, 2.0], np.float32).reshape(1, 1, 2, 2)}
    write(tmp_path, quantized, [SAMPLE, small])
    assert [row["CosineSimilarity"] for row in rows(tmp_path / "output_summary.csv")] == ["1", "nan"]


def test_names_with_commas_quotes_and_formulas_keep_every_column_in_place(tmp_path: Path) -> None:
    quantized = conv_relu()
    model, made = quantized.model, quantized.plan
    conv = next(iter(model.graph))
    made.nodes['=a,b "c"'] = made.nodes.pop("conv")
    conv.name = '=a,b "c"'
    made.activations["-x,1"] = made.activations.pop("x")
    model.graph.inputs[0].name = "-x,1"
    write(tmp_path, quantized, [{"-x,1": SAMPLE["x"]}])
    for name in ("round_0.csv", "quant_param.csv"):
        first = rows(tmp_path / name)[0]
        assert (first["NodeName"], first["NodeType"], first["TensorName"]) == ('\'=a,b "c"', "Conv", "'-x,1")
    assert (tmp_path / "round_0.csv").read_text().splitlines()[1].startswith('0,"\'=a,b ""c""",Conv,"\'-x,1",Input,')


def test_the_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    write(folder, conv_relu(), [SAMPLE])
    assert len(contents(folder)) == 3


def test_the_messages_are_those_of_the_original(tmp_path: Path) -> None:
    stream = io.StringIO()
    write(tmp_path, conv_relu(), [SAMPLE, SAMPLE], log=Log(NORMAL, stream))
    assert stream.getvalue().splitlines() == [
        "Statistics the original data distribution. Round 0",
        "Statistics the original data distribution. Round 1",
        f"Success save debug info to {tmp_path / 'round_0.csv'}",
        f"Success save debug info to {tmp_path / 'round_1.csv'}",
        f"Success save quant param to {tmp_path / 'output_summary.csv'}",
        f"Success save quant param to {tmp_path / 'quant_param.csv'}",
    ]


def test_round_files_of_an_earlier_run_are_named(tmp_path: Path) -> None:
    write(tmp_path, conv_relu(), [SAMPLE] * 3)
    log = Log()
    write(tmp_path, conv_relu(), [SAMPLE], log=log)
    assert log.warnings == [f"{tmp_path}: 2 round files are of an earlier run, e.g. round_1.csv"]


def test_no_sample_is_an_error_that_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no sample"):
        write(tmp_path / "reports", conv_relu(), [])
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_half_way_leaves_the_files_of_the_last_one_as_they_were(tmp_path: Path) -> None:
    write(tmp_path, conv_relu(), [SAMPLE])
    before = contents(tmp_path)

    def failing() -> Iterator[Feed]:
        yield {"x": SAMPLE["x"] * 2}
        raise DataError("unreadable picture")

    with pytest.raises(DataError, match="unreadable picture"):
        write(tmp_path, conv_relu(), failing())
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConverterError, match="cannot write"):
        write(tmp_path / "file", conv_relu(), [SAMPLE])


def test_samples_are_taken_one_at_a_time_and_let_go(tmp_path: Path) -> None:
    alive: list[weakref.ref[NDArray[Any]]] = []
    most = 0

    def samples() -> Iterator[Feed]:
        nonlocal most
        for i in range(12):
            most = max(most, sum(ref() is not None for ref in alive))
            array = SAMPLE["x"] * np.float32(i)
            alive.append(weakref.ref(array))
            yield {"x": array}
            del array

    write(tmp_path, conv_relu(), samples())
    assert len(alive) == 12
    assert most <= 2  # the first, whose shapes decide, and the one just done


def test_the_files_do_not_depend_on_threads_or_on_how_tensors_are_grouped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [SAMPLE, {"x": SAMPLE["x"] * 2}]
    write(tmp_path / "one", conv_relu(), samples)
    write(tmp_path / "many", conv_relu(), samples, threads=4)
    monkeypatch.setattr(observation, "GROUP_BYTES", 1)
    write(tmp_path / "groups", conv_relu(), samples)
    assert contents(tmp_path / "one") == contents(tmp_path / "many") == contents(tmp_path / "groups")


def test_the_quantized_model_is_left_as_it_is(tmp_path: Path) -> None:
    quantized = conv_relu()
    before = ir.to_proto(quantized.model).SerializeToString(deterministic=True)
    write(tmp_path, quantized, [SAMPLE])
    assert ir.to_proto(quantized.model).SerializeToString(deterministic=True) == before
