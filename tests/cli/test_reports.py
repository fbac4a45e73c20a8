"""Reports of a run: CSV files of every format, the page, figures in the JSON result."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.base import FileOptions
from converter_lite.formats.registry import output_format
from converter_lite.kernels.similarity import cosine_similarity
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.reports.page import packages
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.serializing import open_file
from tests.cli.workshop import FULL, WEIGHT, Workshop, changed, write_bins, write_pictures
from tests.support import build_proto, normal

SUFFIXES = {"ONNX": ".onnx", "MINDIR_LITE": ".ms", "NAIVE_BUFFER": ".nb"}
ALL = "--saveType=" + ",".join(SUFFIXES)
DEBUG = {"common_quant_param": {"debug_info_save_path": "debug"}}
SHAPE = "--inputShape=x:1,3,8,8"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def figures(workshop: Workshop) -> Any:
    return json.loads((workshop.folder / "result.json").read_text(encoding="utf-8"))["figures"]


def read_back(name: str, path: Path) -> QuantizedModel:
    """What a file holds, as its own reader says."""
    if name == "ONNX":
        from converter_lite.formats.onnx.qdq import read_qdq
        from converter_lite.formats.onnx.reader import read_onnx

        return read_qdq(read_onnx(path), where=str(path))
    if name == "MINDIR_LITE":
        from converter_lite.formats.mindspore_lite.importer.reader import to_quantized_model

        return to_quantized_model(path.read_bytes())
    from converter_lite.formats.paddle.nb.reader import read

    return read(path.read_bytes(), where=str(path), input_shapes={"x": (1, 3, 8, 8)})


@pytest.fixture
def reported(workshop: Workshop) -> Workshop:
    """All three formats, with reports."""
    workshop.succeed(ALL, SHAPE, "--json=result.json", config=changed(FULL, **DEBUG))
    return workshop


@pytest.mark.parametrize("name", SUFFIXES)
def test_scales_in_the_reports_are_those_that_the_file_holds(reported: Workshop, name: str) -> None:
    told = {
        (row["TensorName"], float(row["Scale"]), int(row["Bits"]))
        for row in rows(Path("debug") / name / "quant_param.csv")
        if row["Bits"] == "8"
    }
    plan = read_back(name, Path("out" + SUFFIXES[name])).plan
    stored = {
        round(float(s), 9) for p in (*plan.activations.values(), *plan.weights.values()) for s in p.scale.reshape(-1)
    }
    assert len({tensor for tensor, _, _ in told}) >= 4
    for tensor, scale, _ in told:
        assert min(abs(scale - other) / scale for other in stored) < 1e-5, tensor


@pytest.mark.parametrize("name", SUFFIXES)
def test_cosines_in_the_reports_are_those_of_the_written_file(reported: Workshop, name: str) -> None:
    fmt = output_format(name, FileOptions())
    original = ir.load("model.onnx")
    original.graph.inputs[0].shape = ir.Shape([1, 3, 8, 8])
    source = fmt.runnable(Path("out" + SUFFIXES[name]), like=original)
    written, before = open_file(DEFAULT_ENGINE, source), open_file(DEFAULT_ENGINE, Path("model.onnx"))
    summary = rows(Path("debug") / name / "output_summary.csv")
    assert [row["Round"] for row in summary] == ["0", "1", "2", "3"]
    for index, row in enumerate(summary):
        sample = np.fromfile(f"bins/{index:03}.bin", np.float32).reshape(1, 8, 8, 3).transpose(0, 3, 1, 2).copy()
        (given,) = written.run({"x": sample}).values()
        expected = before.run({"x": sample})["y"]
        assert float(row["CosineSimilarity"]) == pytest.approx(cosine_similarity(expected, given), abs=2e-4)


@pytest.mark.parametrize("name", SUFFIXES)
def test_names_in_the_reports_are_those_of_the_onnx_model(reported: Workshop, name: str) -> None:
    table = rows(Path("debug") / name / "round_0.csv")
    nodes = {node.name for node in ir.load("model.onnx").graph}
    tensors = {"x", "w_conv", "b_conv", "w_fc", "b_fc", "conv_out", "relu_out", "pooled", "flat", "y"}
    assert {row["NodeName"] for row in table} <= nodes
    assert {row["TensorName"] for row in table} <= tensors
    origin = next(row for row in table if (row["TensorName"], row["DataTypeFlag"]) == ("x", "Origin"))
    sample = np.fromfile("bins/000.bin", np.float32)
    assert float(origin["Max"]) == pytest.approx(float(sample.max()), rel=1e-5)
    assert float(origin["Mean"]) == pytest.approx(float(sample.mean(dtype=np.float64)), rel=1e-4)


def test_weights_of_every_format_have_their_report(workshop: Workshop) -> None:
    workshop.succeed(ALL, SHAPE, config=changed(WEIGHT, **DEBUG))
    for name in SUFFIXES:
        weights = {row["TensorName"] for row in rows(Path("debug") / name / "quant_param.csv")}
        assert weights == {"w_conv", "w_fc"}, name


def test_the_page_of_all_formats_stands_beside_their_folders(reported: Workshop) -> None:
    text = Path("debug/report.html").read_text(encoding="utf-8")
    assert text.count('data-choose="') == 3
    assert {path.name for path in Path("debug").iterdir()} == {*SUFFIXES, "report.html"}


def test_the_json_result_has_the_figures_of_the_page(reported: Workshop) -> None:
    page = Path("debug/report.html").read_text(encoding="utf-8")
    (_, _, rest) = page.partition('<script type="application/json" id="data">')
    models = json.loads(rest.partition("</script>")[0])["models"]
    told = figures(reported)
    assert [model.pop("name") for model in models] == list(told)
    assert models == list(told.values())
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    assert result["configuration"]["common_quant_param"]["quant_type"] == "FULL_QUANT"
    assert result["samples"][0][0]["shape"] == [1, 3, 8, 8]
    conv = told["ONNX"]["layers"][0]
    assert (conv["name"], conv["mode"], conv["bits"]) == ("node_conv_out", "integer", 8)
    assert conv["local"]["cosine"] > 0.999
    assert conv["accumulated"]["sqnr"] > 20


def test_every_number_that_the_page_shows_is_in_the_json_result(workshop: Workshop) -> None:
    write_pictures(workshop.folder / "pictures", 4)
    pictures = {"calibrate_path": "x:pictures", "input_type": "IMAGE"}
    workshop.succeed("--report=page.html", "--json=result.json", config=changed(FULL, data_preprocess_param=pictures))
    page = Path("page.html").read_text(encoding="utf-8")
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    known = {abs(number) for number in numbers_of(result)} | {len(result["figures"]["ONNX"]["layers"])}
    (artefact,) = result["artefacts"]
    derived = {round(artefact["bytes"] / result["model_bytes"], 2)}
    shown = re.sub(r"<(script|style|h1|code|nav)[^>]*>.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    shown = html.unescape(shown)
    found = re.findall(r"(?<![\w.])\d[\d,]*\.?\d*(?:e[+-]\d+)?(?: [kM]B)?(?![\w.])", shown)
    assert len(found) > 30
    missing = [text for text in found if not any(is_shown(value, text) for value in (*known, *derived))]
    assert set(missing) <= {"0", "1", "2"}, missing  # numbers of samples and channels, and the 1 of "1 - cosine"


def numbers_of(data: Any) -> Iterator[float]:
    """All numbers of a JSON document, and those in its texts."""
    if isinstance(data, dict | list):
        for item in data.values() if isinstance(data, dict) else data:
            yield from numbers_of(item)
    elif isinstance(data, str):
        yield from map(float, re.findall(r"\d+\.?\d*", data))
    elif isinstance(data, int | float):
        yield data


def is_shown(value: float, text: str) -> bool:
    """Whether a text is the rounded value."""
    number, _, unit = text.partition(" ")
    factor = {"": 1, "kB": 1e3, "MB": 1e6}[unit]
    plain = number.replace(",", "")
    mantissa, _, exponent = plain.partition("e")
    step = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(value / factor - float(plain)) <= 0.51 * step


def test_report_writes_the_page_where_it_is_told_to_and_no_csv(workshop: Workshop) -> None:
    out = workshop.succeed("--report=pages/report.html", config=FULL).out
    assert "Success save report to pages/report.html" in out
    assert Path("pages/report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not list(workshop.folder.rglob("*.csv"))


def test_without_a_report_the_json_result_has_decisions_and_sizes_and_nothing_is_measured(workshop: Workshop) -> None:
    workshop.succeed("--json=result.json", config=FULL)
    told = figures(workshop)["ONNX"]
    assert told["samples"] == 0
    assert told["layers"][0]["bytes_before"] == 4 * (20 * 27 + 20)
    assert told["layers"][0]["local"] is None
    assert told["tensors"][0]["grid"]["bits"] == 8


def test_a_rejected_conversion_leaves_the_page_that_shows_why(workshop: Workshop) -> None:
    outcome = workshop.convert("--minCosine=1", "--report=report.html", "--json=result.json", config=FULL)
    assert outcome.status == 1
    assert "below the quality gate" in outcome.err
    assert '<b class="bad">missed</b>' in Path("report.html").read_text(encoding="utf-8")
    assert not Path("out.onnx").exists()
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    assert (result["status"], result["rejected"][0]["gate"], "artefacts" in result) == (1, 1.0, False)
    assert result["figures"]["ONNX"]["layers"][0]["local"]["cosine"] > 0.99
    assert "below the quality gate" in result["error"]


def test_the_page_says_that_a_file_that_is_too_slow_is_not_written(workshop: Workshop) -> None:
    outcome = workshop.convert("--minSpeedup=1e9", "--report=report.html", "--saveType=ONNX", config=FULL)
    assert (outcome.status, Path("out.onnx").exists()) == (1, False)
    assert "Not written: out.onnx: " in html.unescape(Path("report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("bits", ["4", "8"])
def test_blocks_have_reports(workshop: Workshop, bits: str) -> None:
    config = changed(WEIGHT, **DEBUG, weight_quant_param={"block_size": "32"})
    workshop.succeed("--saveType=ONNX", "--report=r.html", config=changed(config, common_quant_param={"bit_num": bits}))
    assert Path("debug").is_dir()


def test_a_layer_with_one_channel_has_a_report(workshop: Workshop) -> None:
    proto = build_proto("g (float[1,3,8,8] x) => (float[1,1,8,8] y) { y = Conv(x, w) }", w=normal(1, 3, 1, 1))
    onnx.save(proto, workshop.model)
    workshop.succeed("--saveType=ONNX", "--report=r.html", config=changed(WEIGHT, **DEBUG))
    assert Path("debug").is_dir()


def test_layers_that_a_goal_measured_are_ranked_by_it(workshop: Workshop) -> None:
    goal = {"common_quant_param": {"target_cosine": "0.9999999", "max_float_nodes": "1"}}
    workshop.succeed("--json=result.json", config=changed(FULL, **goal))
    assert figures(workshop)["ONNX"]["ranked_by"] == "fallback"


def test_without_the_extra_report_is_refused_before_any_work(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "PACKAGES", ("no_such_package",))
    message = workshop.fail(2, "--report=report.html", config=FULL, model="no_such_model.onnx")
    assert message == (
        "ERROR --report=report.html: the page needs no_such_package, which is not installed\n"
        "  pip install 'converter-lite[report]'\n"
    )


def test_without_the_extra_the_csv_files_are_written_and_a_line_says_how_to_get_the_page(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "PACKAGES", ("no_such_package",))
    out = workshop.succeed(config=changed(FULL, **DEBUG)).out
    assert (
        "debug/report.html is left out: it needs no_such_package, which is not installed (pip install 'converter-lite[report]')"
        in out
    )
    assert Path("debug/round_0.csv").exists()
    assert not Path("debug/report.html").exists()


@pytest.mark.parametrize(
    ("flags", "config", "message"),
    [
        (("--dryRun",), FULL, "a dry run measures nothing"),
        ((), None, "there is nothing to report without quantization"),
        (("--json=report.html",), FULL, "overwrite"),
    ],
)
def test_a_page_that_cannot_be_is_refused(
    workshop: Workshop, flags: tuple[str, ...], config: Any, message: str
) -> None:
    assert message in workshop.fail(2, "--report=report.html", *flags, config=config)


def test_no_more_than_16_samples_are_measured_and_held(workshop: Workshop) -> None:
    write_bins(workshop.folder / "bins", 20, (1, 8, 8, 3))
    many = {"data_preprocess_param": {"calibrate_size": "20"}}
    workshop.succeed("--json=result.json", "--report=report.html", config=changed(FULL, **many))
    assert figures(workshop)["ONNX"]["samples"] == 16
