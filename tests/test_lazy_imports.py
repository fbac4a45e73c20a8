import subprocess
import sys


def _run(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_onnx_ir_is_imported_without_sympy_until_a_dimension_is_computed() -> None:
    program = """
import sys
import converter_lite.conversion
import onnx_ir as ir
print("sympy.core" in sys.modules)
print(ir.SymbolicDim("n") == "n", "sympy.core" in sys.modules)
print((ir.SymbolicDim("n") + 1).evaluate({"n": 4}), "sympy.core" in sys.modules)
"""
    assert _run(program) == ["False", "True", "False", "5", "True"]


def test_sympy_that_somebody_else_imports_is_loaded_as_always() -> None:
    assert _run("import sys, converter_lite, sympy; print('sympy.core' in sys.modules)") == ["True"]
