import subprocess
import sys

import onnx_ir as ir
import pytest

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


def test_deferred_modules_work_when_they_are_used() -> None:
    program = """
import onnx, uuid
print(uuid.UUID(int=0))
print(onnx.parser.parse_node("y = Relu(x)").op_type)
"""
    assert run(program) == ["00000000-0000-0000-0000-000000000000", "Relu"]
