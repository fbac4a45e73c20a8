"""What is fuzzed: everything that reads bytes of strangers, as a function of bytes, with the files to start from."""

from __future__ import annotations

import atexit
import io
import json
import pickle
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from PIL import Image

from converter_lite.analysis.recorded import read_recorded
from converter_lite.batch.jobs import read_jobs
from converter_lite.calibration.cache import StatisticsCache
from converter_lite.calibration.statistics import TensorStatistics
from converter_lite.cli.arguments import parse_input_shape
from converter_lite.config.parser import parse_config
from converter_lite.config.template import TEMPLATES, template
from converter_lite.data.images import FORMATS, ImagePreprocess, is_picture, load_image
from converter_lite.data.inputs import InputSpec
from converter_lite.errors import DataError, ModelError
from converter_lite.formats.caffe.source import read_source as read_caffe
from converter_lite.formats.child import Refusal
from converter_lite.formats.mindir.source import read_source as read_mindir
from converter_lite.formats.mindspore_lite.exporter.writer import write as write_ms
from converter_lite.formats.mindspore_lite.importer.reader import to_quantized_model
from converter_lite.formats.onnx.source import read_source as read_onnx_source
from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.inference_model.writer import parameter_bytes, program_bytes
from converter_lite.formats.paddle.nb.reader import read as read_nb
from converter_lite.formats.pytorch.child.archive import archive_of
from converter_lite.formats.pytorch.child.pickles import foreign_globals
from converter_lite.formats.pytorch.inspect import describe as describe_pytorch
from converter_lite.formats.source import ModelFiles
from converter_lite.formats.tflite.importer.graph import to_quantized_model as read_tflite
from converter_lite.kernels.histogram import Histogram
from converter_lite.log import Log
from converter_lite.quantization.plan import load_plans
from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, ini, model_proto
from tests.formats.caffe.cases import CASES as CAFFE_CASES
from tests.formats.caffe.detectors import DETECTIONS, detector_text, ssd
from tests.formats.caffe.networks import caffemodel
from tests.formats.mindir.test_operators import CASES as MINDIR_CASES
from tests.formats.mindir.test_structure import PROGRAMS as MINDIR_PROGRAMS
from tests.formats.mindspore_lite.models import convolutional, floating, weights_quantized
from tests.formats.onnx.foreign import CASES as FOREIGN
from tests.formats.onnx.foreign import model as foreign_model
from tests.formats.paddle.inference_models import (
    fake_quantized_model,
    float_model,
    linear_quantized_model,
    trained_model,
)
from tests.formats.paddle.models import small_network, sparse_file
from tests.formats.paddle.pir_cases_layers import CASES_OF_LAYERS
from tests.formats.paddle.pir_cases_pictures import CASES_OF_PICTURES
from tests.formats.paddle.pir_cases_shapes import CASES_OF_SHAPES
from tests.formats.paddle.pir_models import pir_twin
from tests.formats.paddle.plans import plan_weights
from tests.formats.paddle.writing import write as write_nb
from tests.formats.pytorch.archives import WEIGHTS, exported, program, scripted
from tests.formats.tflite.models import seeds as tflite_seeds
from tests.support import full, samples_of, written

PICTURES = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP", "TGA", "PCX")


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
        read: Takes bytes; ends, or raises a ``ConverterError``. Anything else is a finding.
        seeds: Files that are read without an error.
        is_lean: It takes no more memory than ten times the file and 1 MiB.
    """

    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    is_lean: bool = False


@cache
def scratch() -> Path:
    """A folder for readers that take paths."""
    folder = tempfile.mkdtemp(prefix="converter_lite_fuzz_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _file(name: str, data: bytes) -> Path:
    path = scratch() / name
    path.write_bytes(data)
    return path


# -- models -----------------------------------------------------------------------------------------------------------


def _read_onnx(data: bytes) -> object:
    source = read_onnx_source(ModelFiles(_file("model.onnx", data), None, {}, confined=True))
    return source.graph(keep_qdq=False)


BRANCHES = """
g (float[N,4] x, bool flag) => (float[N,4] y) {
    t = Mul(x, c)
    y = If(flag) <then_branch = yes () => (float[N,4] a) { a = Relu(t) }, else_branch = no () => (float[N,4] b) { b = Neg(t) }>
}
"""

FUNCTION = """<ir_version: 8, opset_import: ["" : 13, "own" : 1]>
g (float[N,4] x) => (float[N,4] y) { y = own.scaled <factor = 2.0> (x) }
<domain: "own", opset_import: ["" : 13]>
scaled <factor> (a) => (b) { k = Constant <value_float: float = @factor> () b = Mul(a, k) }
"""


def _onnx_seeds() -> list[bytes]:
    import onnx_ir as ir

    small = "g (float[N,6] x) => (float[N,4] y) { h = MatMul(x, w)  y = Relu(h) }"
    weights = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    float_graph = ir.from_proto(model_proto(small, w=weights))
    quantized = written(full(float_graph, samples=samples_of(float_graph)))
    protos = [model_proto(), model_proto(BRANCHES, c=np.ones(4, np.float32)), ir.to_proto(quantized)]
    apart = scratch() / "apart.onnx"
    onnx.save(model_proto(), apart, save_as_external_data=True, location="weights.bin", size_threshold=0)
    files = [proto.SerializeToString() for proto in (*protos, onnx.parser.parse_model(FUNCTION))]
    foreign = [foreign_model(case) for name, case in FOREIGN.items() if name != "four-bit weights"]
    return [*files, apart.read_bytes(), *(proto.SerializeToString() for proto in foreign)]


def _read_paddle(data: bytes) -> object:
    """The first four bytes say where the program ends and the parameters begin."""
    length = int.from_bytes(data[:4], "little")
    program = _file("inference.pdmodel", data[4 : 4 + length])
    return read_paddle(program, _file("inference.pdiparams", data[4 + length :]))


def _paddle_seeds() -> list[bytes]:
    seeds = []
    for maker in (float_model, fake_quantized_model, linear_quantized_model):
        program, parameters = maker()
        head = program_bytes(program)
        seeds.append(len(head).to_bytes(4, "little") + head + parameter_bytes(parameters))
    return seeds


def _read_pir(data: bytes) -> object:
    """The first four bytes say where the program ends and the parameters begin."""
    length = int.from_bytes(data[:4], "little")
    program = _file("inference.json", data[4 : 4 + length])
    return read_paddle(program, _file("pir.pdiparams", data[4 + length :]))


def _pir_seeds() -> list[bytes]:
    twins = [pir_twin(*maker()) for maker in (float_model, fake_quantized_model, linear_quantized_model, trained_model)]
    seeds = []
    for made in [
        *twins,
        *(case.program() for case in {**CASES_OF_LAYERS, **CASES_OF_PICTURES, **CASES_OF_SHAPES}.values()),
    ]:
        head = made.json()
        seeds.append(len(head).to_bytes(4, "little") + head + parameter_bytes(made.parameters))
    return seeds


def _read_caffe(data: bytes) -> object:
    """The first four bytes say where the description ends and the weights begin."""
    length = int.from_bytes(data[:4], "little")
    description = _file("net.prototxt", data[4 : 4 + length])
    weights = _file("net.caffemodel", data[4 + length :])
    return read_caffe(ModelFiles(description, weights, {}, confined=True))


def _caffe_seeds() -> list[bytes]:
    cases = [(case.text, caffemodel(case.weights)) for case in CAFFE_CASES.values()]
    cases += [(detector_text(settings), b"") for settings in DETECTIONS.values()]
    text, weights = ssd()
    cases.append((text, caffemodel(weights, "half")))
    seeds = [(head.encode(), content) for head, content in cases]
    return [len(head).to_bytes(4, "little") + head + content for head, content in seeds]


def _read_mindir(data: bytes) -> object:
    return read_mindir(ModelFiles(_file("net.mindir", data), None, {}, confined=True))


def _mindir_seeds() -> list[bytes]:
    return [case.content() for case in MINDIR_CASES.values()] + [make() for make in MINDIR_PROGRAMS.values()]


def _ms_seeds() -> list[bytes]:
    model = convolutional()
    return [write_ms(floating(model)), *(write_ms(weights_quantized(model, bits)) for bits in (2, 4, 8))]


def _nb_seeds() -> list[bytes]:
    quantized = plan_weights(small_network(), target="x86", bits=8)
    weights = [write_nb(quantized, options=NbOptions("x86", meta_version=version)) for version in (1, 2)]
    return [*weights, sparse_file()]


# -- pictures ---------------------------------------------------------------------------------------------------------


def _read_picture(data: bytes) -> object:
    path = _file("picture", data)
    if not is_picture(path):
        raise DataError("not a picture")
    small = {"resize_width": 6, "resize_height": 5, "resize_method": "LINEAR"}
    return [load_image(path, ImagePreprocess(image_to_format=kind, **small), planar=True) for kind in FORMATS]


def _picture_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    color = Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8))
    seeds = [_encoded(color, kind) for kind in PICTURES]
    seeds += [_encoded(color.convert(mode), kind) for mode, kind in (("L", "PNG"), ("P", "PNG"), ("RGBA", "PNG"))]
    seeds += [_encoded(color.convert("CMYK"), "JPEG"), _encoded(color.convert("1"), "TIFF")]
    seeds.append(_encoded(Image.fromarray(rng.integers(0, 65536, (9, 7), np.uint16)), "PNG"))
    seeds.append(_encoded(color, "GIF", save_all=True, append_images=[color.rotate(90)]))
    exif = Image.Exif()
    exif[0x0112] = 6
    return [*seeds, _encoded(color, "JPEG", exif=exif), _encoded(color, "TIFF", compression="tiff_lzw")]


def _encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


# -- texts and statistics ---------------------------------------------------------------------------------------------


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _ini_seeds() -> list[bytes]:
    return [template(name).encode() for name in TEMPLATES] + [
        ini(config).encode() for config in (FULL, WEIGHT, DYNAMIC)
    ]


def _read_plan(data: bytes) -> object:
    return load_plans(_file("plan.json", data), ["ONNX"])


def _plan_seeds() -> list[bytes]:
    import onnx_ir as ir

    graph = "g (float[N,6] x) => (float[N,4] y) { y = MatMul(x, w) }"
    plan = full(ir.from_proto(model_proto(graph, w=np.ones((6, 4), np.float32)))).plan
    return [json.dumps({"ONNX": plan.to_json()}).encode()]


FLAGS = ("modelFile", "outputFile", "configFile", "saveType", "fmk", "threads")


def _read_batch(data: bytes) -> object:
    return read_jobs(_file("jobs.toml", data), FLAGS, {})


def _batch_seeds() -> list[bytes]:
    return [
        b'folder = "models"\noutputDir = "out"\n[defaults]\nsaveType = "ONNX"\n[[job]]\nname = "a"\nmodelFile = "a.onnx"\n'
    ]


def _read_cache(data: bytes) -> object:
    cache = StatisticsCache(scratch(), "", Log())
    return cache.load(_file("statistics.npz", data), ["x", "y"])


def _cache_seeds() -> list[bytes]:
    histogram = Histogram(-4, -2, np.array([1, 5, 7, 2], np.int64))
    group = [TensorStatistics(3, -0.5, 0.25, 0, -0.5, 0.25, histogram) for _ in range(2)]
    path = scratch() / "seed.npz"
    StatisticsCache(scratch(), "", Log()).save(path, 3, group)
    return [path.read_bytes()]


SAMPLE_INPUT = InputSpec("x", np.dtype(np.float32), (2, 3))


def _read_sample(data: bytes) -> object:
    """An archive, or else a tensor of ONNX's test data."""
    if data[:2] == b"PK":
        return read_recorded(_file("sample.npz", data), [SAMPLE_INPUT], limit=1)
    _file("input_0.pb", data)
    return read_recorded(scratch(), [SAMPLE_INPUT], limit=1)


def _sample_seeds() -> list[bytes]:
    array = np.ones((2, 3), np.float32)
    stream = io.BytesIO()
    np.savez(stream, x=array)
    return [stream.getvalue(), numpy_helper.from_array(array, "x").SerializeToString()]


def _read_pytorch(data: bytes) -> object:
    """An archive, a pickle, or else the description of a program within an archive: what is found before PyTorch sees it."""
    path = scratch() / "net.pt2"
    if data[:1] == b"\x80":
        return foreign_globals(data)
    if data[:2] == b"PK":
        path.write_bytes(data)
    else:
        exported(path, data)
    found = list(describe_pytorch(path, confined=True))
    try:
        archive_of(path).refuse_code()
    except Refusal as refusal:
        raise ModelError(refusal.message) from refusal
    return found


def _pytorch_seeds() -> list[bytes]:
    path = scratch() / "net.pt2"
    archives = [exported(path).read_bytes(), scripted(path).read_bytes()]
    guarded = program(guards_code=["L['x'].size()[0] >= 2"])
    return [*archives, json.dumps(guarded).encode(), pickle.dumps(WEIGHTS, protocol=2)]


READERS: Mapping[str, Reader] = {
    "onnx": Reader(_read_onnx, _onnx_seeds),
    "paddle": Reader(_read_paddle, _paddle_seeds, is_lean=True),
    "pir": Reader(_read_pir, _pir_seeds, is_lean=True),
    "caffe": Reader(_read_caffe, _caffe_seeds, is_lean=True),
    "pytorch": Reader(_read_pytorch, _pytorch_seeds),
    "mindir": Reader(_read_mindir, _mindir_seeds, is_lean=True),
    "ms": Reader(to_quantized_model, _ms_seeds, is_lean=True),
    "nb": Reader(read_nb, _nb_seeds, is_lean=True),
    "tflite": Reader(read_tflite, tflite_seeds, is_lean=True),
    "picture": Reader(_read_picture, _picture_seeds),
    "ini": Reader(lambda data: parse_config(_text(data)), _ini_seeds),
    "plan": Reader(_read_plan, _plan_seeds),
    "batch": Reader(_read_batch, _batch_seeds),
    "cache": Reader(_read_cache, _cache_seeds),
    "samples": Reader(_read_sample, _sample_seeds),
    "shapes": Reader(lambda data: parse_input_shape(_text(data)), lambda: [b"x:1,3,224,224;y:2,128"]),
}
"""Name -> reader, those with the most code first."""
