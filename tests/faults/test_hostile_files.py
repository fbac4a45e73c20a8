"""Files that were made to do harm: they read nothing else, take no memory or time beyond their size, and print no commands."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, PngImagePlugin

from converter_lite.analysis.recorded import read_recorded
from converter_lite.batch.jobs import read_jobs
from converter_lite.calibration.cache import StatisticsCache
from converter_lite.cli.console import EscapingStream, printable
from converter_lite.config.parser import MAX_BYTES, load_config
from converter_lite.data.images import decode, is_picture
from converter_lite.data.inputs import InputSpec
from converter_lite.errors import ConfigError, ConverterError, DataError, ModelError
from converter_lite.formats.paddle_nb.protobuf import program_bytes, tensor_bytes
from converter_lite.frontends.onnx import read_onnx
from converter_lite.frontends.paddle import read_paddle
from converter_lite.log import Log
from converter_lite.reports.csv_rows import name_field
from tests.cli.workshop import FULL, WEIGHT, Workshop, changed, child, command, environment, model_proto
from tests.frontends.paddle_models import conv, program_of, random
from tests.support import normal

VALUES = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]


def peak_of(work: object, *arguments: object) -> int:
    """Most bytes that Python and NumPy held while a call was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ConverterError):
            work(*arguments)  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def save_graph(path: Path, nodes: list[onnx.NodeProto], **more: object) -> Path:
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "g", VALUES[:1], VALUES[1:])
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, **more).SerializeToString())
    return path


# -- paths ------------------------------------------------------------------------------------------------------------


def stolen_tensor() -> TensorProto:
    tensor = numpy_helper.from_array(normal(4), "c")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")
    return tensor


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
        ("offset", "-8", "before the start|damaged"),
        ("length", "-8", "before the start|damaged"),
        ("offset", "99999999999999999999", "too short"),
        ("offset", "x", "damaged"),
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
    weight = random(4, 3, 3, 3)
    (tmp_path / "zoo" / "a").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(tensor_bytes(weight))
    (tmp_path / "zoo" / "link").symlink_to(tmp_path / "secret")
    program = program_of([conv("image", name, "out")], {name: weight}, {"image": (1, 3, 8, 8)}, "out")
    (tmp_path / "zoo" / "model").write_bytes(program_bytes(program))
    with pytest.raises(ModelError, match="outside the model's folder") as refused:
        read_paddle(tmp_path / "zoo")
    assert "--allowExternalPaths" in refused.value.hint
    assert read_paddle(tmp_path / "zoo", confined=False).model.graph.initializers


def test_the_flag_reaches_paddle_models(workshop: Workshop) -> None:
    weight = random(4, 3, 3, 3)
    (workshop.folder / "zoo").mkdir()
    (workshop.folder / "w").write_bytes(tensor_bytes(weight))
    program = program_of([conv("image", "../w", "out")], {"../w": weight}, {"image": (1, 3, 8, 8)}, "out")
    (workshop.folder / "zoo" / "model").write_bytes(program_bytes(program))
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


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_functions_that_double_each_other_are_counted_before_they_are_inlined(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(40):
        called = [helper.make_node(f"f{level + 1}", [a], [b], domain="own") for a, b in (("x", "t"), ("t", "y"))]
        body = called if level < 39 else [helper.make_node("Relu", ["x"], ["y"])]
        functions.append(helper.make_function("own", f"f{level}", ["x"], ["y"], body, opsets))
    path = save_graph(tmp_path / "m.onnx", [helper.make_node("f0", ["x"], ["y"], domain="own")], functions=functions)
    with pytest.raises(ModelError, match=r"5\.5e\+11 nodes"):
        read_onnx(path)


def test_functions_that_call_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", name, ["x"], ["y"], [helper.make_node(other, ["x"], ["y"], domain="own")], opsets)
        for name, other in (("f", "g"), ("g", "f"))
    ]
    path = save_graph(tmp_path / "m.onnx", [helper.make_node("f", ["x"], ["y"], domain="own")], functions=functions)
    with pytest.raises(ModelError, match="calls itself"):
        read_onnx(path)


def test_a_graph_nested_a_thousand_times_is_refused(tmp_path: Path) -> None:
    depth = 1000
    inner = b""
    for _ in range(depth):  # Graph.node = 1, Node.attribute = 5, Attribute.g = 6
        for tag in (0x32, 0x2A, 0x0A):
            length, size = len(inner), b""
            while length > 127:
                size += bytes([length & 127 | 128])
                length >>= 7
            inner = bytes([tag]) + size + bytes([length]) + inner
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x3a" + _varint(len(inner)) + inner)
    with pytest.raises(ModelError, match="no ONNX model, or it is damaged"):
        read_onnx(tmp_path / "m.onnx")


def _varint(number: int) -> bytes:
    parts = b""
    while number > 127:
        parts += bytes([number & 127 | 128])
        number >>= 7
    return parts + bytes([number])


@pytest.mark.parametrize("dims", [[10**12], [2**31, 2**31, 4], [-4], [2**62, 4]])
def test_a_constant_of_giant_shape_without_its_numbers_takes_no_memory(tmp_path: Path, dims: list[int]) -> None:
    proto = model_proto("g (float[N,4] x) => (float[N,4] y) { y = Mul(x, w) }", w=np.ones(4, np.float32))
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend(dims)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert peak_of(read_onnx, tmp_path / "m.onnx") < 8_000_000


@pytest.mark.parametrize("shape", [[2**20, 2**12], [2**32, 2**32], [2**21, 2**21, 2**22]])
def test_constants_are_not_computed_when_their_result_is_giant(workshop: Workshop, shape: list[int]) -> None:
    graph = "g (float[1] x) => (float[1] y) { c = ConstantOfShape(s)  r = ReduceSum<keepdims = 0>(c)  y = Add(x, r) }"
    onnx.save(model_proto(graph, s=np.array(shape, np.int64)), "model.onnx")
    outcome = workshop.convert("--dryRun")
    assert outcome.status in (0, 1)


def test_an_input_of_giant_shape_is_not_filled_with_random_numbers(workshop: Workshop) -> None:
    onnx.save(
        model_proto("g (float[1,1000000,1000000] x) => (float[1,1000000,1000000] y) { y = Relu(x) }"), "model.onnx"
    )
    message = workshop.fail(1)
    assert "4000000000000 bytes" in message
    assert "--inputShape" in message


def test_a_configuration_of_100_mb_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "large.cfg"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    assert peak_of(load_config, path) < 4 * MAX_BYTES


def test_a_configuration_full_of_mistakes_is_told_in_a_hundred_lines(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cfg"
    path.write_text("[common_quant_param]\n" + "".join(f"quant_typ{i}=1\n" for i in range(5_000)), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert len(refused.value.problems) == 101


def test_job_files_and_plans_of_nested_lists_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text("a = " + "[" * 100_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="no TOML"):
        read_jobs(tmp_path / "jobs.toml", [], {})
    from converter_lite.quantization.plan import load_plans

    for text in ("[" * 100_000, '{"ONNX": {"x": NaN}}', '{"ONNX": NaN}', "NaN", '{"ONNX": 1e999}'):
        (tmp_path / "plan.json").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            load_plans(tmp_path / "plan.json", ["ONNX"])


# -- pictures ---------------------------------------------------------------------------------------------------------


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    pixels = zlib.compress(bytes(1 << 20))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + b"\x08\x02\0\0\0") + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("ignore:Image size:PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("size", [(8193, 8192), (10_000, 10_000), (50_000, 50_000), (2**31 - 1, 2**31 - 1)])
def test_a_small_file_of_a_giant_picture_is_refused_before_it_is_decoded(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "p.png").write_bytes(png_header(*size))
    assert peak_of(decode, tmp_path / "p.png") < 8_000_000
    with pytest.raises(DataError, match="too large"):
        decode(tmp_path / "p.png")


@pytest.mark.filterwarnings("ignore:Image size:PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", ["BMP", "GIF", "TIFF", "PPM", "TGA"])
def test_every_format_is_held_to_the_limit(tmp_path: Path, kind: str) -> None:
    width = 65_000 if kind != "PPM" else 70_000
    stream = io.BytesIO()
    Image.new("L", (width, 1)).save(stream, kind)
    data = bytearray(stream.getvalue())
    places = {"BMP": 22, "GIF": 8, "TGA": 14}
    if kind == "PPM":
        data = bytearray(data.replace(b"70000 1\n", b"70000 70000\n"))
    elif kind == "TIFF":
        entry = data.index(b"\x01\x01") if b"\x01\x01" in data else 0
        data[entry + 8 : entry + 12] = (60_000).to_bytes(4, "little")
    else:
        data[places[kind] : places[kind] + 2] = (60_000).to_bytes(2, "little")
    (tmp_path / "p").write_bytes(bytes(data))
    with pytest.raises(DataError, match="too large"):
        decode(tmp_path / "p")


def test_of_an_animation_the_first_picture_is_decoded_only(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 300), np.uint8)
    frames = [Image.fromarray(np.roll(pixels, shift, axis=0)) for shift in range(30)]
    frames[0].save(tmp_path / "p.gif", save_all=True, append_images=frames[1:])
    tracemalloc.start()
    assert decode(tmp_path / "p.gif").shape == (300, 300, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "p.gif").stat().st_size + 10 * pixels.size


def test_texts_in_a_picture_do_not_grow_without_limit(tmp_path: Path) -> None:
    texts = PngImagePlugin.PngInfo()
    for index in range(3):
        texts.add_text(f"Comment{index}", "a" * (20 << 20), zip=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png", pnginfo=texts)
    assert (tmp_path / "p.png").stat().st_size < 1 << 20
    assert peak_of(decode, tmp_path / "p.png") < 16 << 20


@pytest.mark.filterwarnings("ignore:(Tag data larger|Truncated File Read):UserWarning")
def test_exif_data_that_point_anywhere_are_no_reason_to_fail(tmp_path: Path) -> None:
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0" + b"\x12\x01\x03\0\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\x08\0\0\0"
    Image.new("RGB", (6, 4)).save(tmp_path / "p.jpg", exif=exif)
    assert decode(tmp_path / "p.jpg").shape == (4, 6, 3)


def test_formats_that_start_programs_or_hold_other_files_are_not_pictures(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    assert not is_picture(tmp_path / "p")
    with pytest.raises(DataError, match="not a picture of a known format"):
        decode(tmp_path / "p")


# -- statistics -------------------------------------------------------------------------------------------------------


def save_statistics(path: Path, **arrays: object) -> Path:
    good = {
        "count": np.array(2),
        "numbers": np.array([[2, -1, 1, 0, -1, 1]], np.float64),
        "grids": np.array([[-4, -2, 4]]),
        "bins": np.arange(4),
    }
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=True, **{**good, **arrays})  # type: ignore[arg-type]
    return path


class Thief:
    """An object whose reading would run something."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("stolen"),)


def test_statistics_with_objects_are_not_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log()
    cache = StatisticsCache(tmp_path, "", log)
    assert cache.load(save_statistics(tmp_path / "good.npz"), ["x"])[0] == 2
    path = save_statistics(tmp_path / "bad.npz", bins=np.array([Thief()], object))
    assert cache.load(path, ["x"]) == (0, [])
    assert "the samples are read again" in log.warnings[0]
    assert not (tmp_path / "stolen").exists()


@pytest.mark.parametrize(
    "grid", [[10**17, 0, 4], [-(10**17), 0, 4], [0, 2**62, 4], [0, 0, -4], [0, 0, 10**15]], ids=str
)
def test_statistics_with_impossible_histograms_are_not_used(tmp_path: Path, grid: list[int]) -> None:
    log = Log()
    path = save_statistics(tmp_path / "s.npz", grids=np.array([grid]))
    assert StatisticsCache(tmp_path, "", log).load(path, ["x"]) == (0, [])
    assert len(log.warnings) == 1


def test_compressed_statistics_are_not_unpacked(tmp_path: Path) -> None:
    path = save_statistics(tmp_path / "s.npz", bins=np.zeros(20_000_000, np.int8))
    packed = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    log = Log()
    tracemalloc.start()
    assert StatisticsCache(tmp_path, "", log).load(packed, ["x"]) == (0, [])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    assert "compressed" in log.warnings[0]


# -- what is printed and written --------------------------------------------------------------------------------------

EVIL = "a\x1b]0;title\x07\x1b[2J\u202egnp.exe\rb\x9b31m"


def test_control_characters_are_shown_not_obeyed() -> None:
    assert printable("plain\ttext\nмодель 模型") == "plain\ttext\nмодель 模型"
    assert printable(EVIL) == "a\\x1b]0;title\\x07\\x1b[2J\\u202egnp.exe\\rb\\x9b31m"


def test_progress_bars_may_move_the_cursor_and_names_in_them_may_not() -> None:
    raw = io.BytesIO()
    stream = EscapingStream(raw, encoding="ascii", errors="backslashreplace", newline="")
    for text in ("\r 50% é\x1b[2J", "\n", "\x1b[A", "\r"):
        stream.write(text)
    stream.flush()
    assert raw.getvalue() == b"\r 50% \\xe9\\x1b[2J\n\x1b[A\r"


@pytest.mark.parametrize("module", ["converter_lite", "opt"])
def test_names_in_a_model_or_path_do_not_reach_the_terminal_raw(workshop: Workshop, module: str) -> None:
    proto = model_proto()
    for node in proto.graph.node:
        node.name = f"{EVIL}{node.name}"
    proto.graph.node[0].op_type = "Foreign"
    proto.graph.node[0].domain = EVIL
    name = f"{EVIL}.onnx".replace("/", "")
    onnx.save(proto, name)
    if module == "opt":
        code = ["--model_file=" + name, "--optimize_out=out"]
        line = [sys.executable, "-m", "converter_lite.cli.opt", *code]
        done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    else:
        done = child("--fmk=ONNX", f"--modelFile={name}", "--outputFile=out", "--saveType=ONNX", "-v")
    assert done.returncode == 1
    assert "\\x1b" in done.stdout + done.stderr
    assert not set(done.stdout + done.stderr) & {"\x1b", "\x07", "\x9b", "\u202e"}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_name_that_a_spreadsheet_would_run_is_text_in_a_report(start: str) -> None:
    assert name_field(f"{start}cmd|' /C calc'!A0").lstrip('"').startswith("'")


def test_a_name_cannot_add_rows_or_columns_to_a_report() -> None:
    assert name_field('a,b\n=1+1,"c"') == '"a,b\n=1+1,""c"""'


def test_the_result_for_programs_is_json_even_when_figures_are_not_finite(workshop: Workshop) -> None:
    onnx.save(model_proto(w_fc=np.zeros((5, 20), np.float32), b_fc=np.zeros(5, np.float32)), "model.onnx")
    workshop.convert("--json=result.json", "--minCosine=0", config=WEIGHT)

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    json.loads((workshop.folder / "result.json").read_text(encoding="utf-8"), parse_constant=refuse)
