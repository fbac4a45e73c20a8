import subprocess
import sys
from pathlib import Path

import onnx_ir as ir
import pytest

from tests.support import build, normal

START = "import sys; from converter_lite.cli.deferring import defer_imports; defer_imports(); defer_imports()"


def run(program: str) -> list[str]:
    line = [sys.executable, "-c", f"{START}\n{program}"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(not hasattr(ir.SymbolicDim, "__add__"), reason="this onnx_ir does not compute dimensions")
def test_a_conversion_is_imported_without_sympy_until_a_dimension_is_computed() -> None:
    program = """
import converter_lite.pipeline.convert
import onnx_ir as ir
print("sympy.core" in sys.modules)
print(ir.SymbolicDim("n") == "n", "sympy.core" in sys.modules)
print((ir.SymbolicDim("n") + 1).evaluate({"n": 4}), "sympy.core" in sys.modules)
"""
    assert run(program) == ["False", "True", "False", "5", "True"]


CONVERSION = """
from pathlib import Path
from converter_lite.cli.opt_request import convert, request_of
from converter_lite.cli.opt import cli
options = {option.name: option.default for option in cli.params}
model = {"model_file": MODEL, "optimize_out": OUTPUT, "quant_model": "true", "quant_type": "QUANT_INT8"}
convert(request_of({**options, **model}, "arm", ["arm"]))
from converter_lite.cli.deferring import OWN
modules = {name: sys.modules.get(f"converter_lite.{name}") for name in OWN}
print(*(name for name, module in modules.items() if module and type(module).__name__ != "_LazyModule"))
"""


def test_a_conversion_of_weights_without_data_loads_no_other_algorithm(tmp_path: Path) -> None:
    model, output = tmp_path / "model.onnx", tmp_path / "out"
    ir.save(build("g (float[1,3,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, w) }", w=normal(4, 3, 3, 3)), model)
    program = CONVERSION.replace("MODEL", repr(str(model))).replace("OUTPUT", repr(str(output)))
    assert run(program) == ["quantization.qdq.build"]  # for the proof
    assert output.with_suffix(".nb").is_file()


def test_deferred_modules_work_when_they_are_used() -> None:
    program = """
import onnx, uuid
print(uuid.UUID(int=0))
print(onnx.parser.parse_node("y = Relu(x)").op_type)
"""
    assert run(program) == ["00000000-0000-0000-0000-000000000000", "Relu"]
