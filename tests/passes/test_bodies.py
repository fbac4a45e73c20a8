"""Constants of branches and bodies move into the main graph."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter_lite.passes.bodies import capture_constants, hoist_constants
from converter_lite.passes.pipeline import optimize
from tests.support import assert_applies, assert_refuses, assert_same_outputs, build, clone, normal, operators


def branch(name: str, rows: list[int]) -> onnx.GraphProto:
    """A product with a weight that is put together in the branch: two halves in another order, turned."""
    nodes = [
        helper.make_node("Slice", ["w", "from", "to"], ["upper"], name=f"{name}_slice"),
        helper.make_node("Concat", ["upper", "w"], ["joined"], axis=0, name=f"{name}_concat"),
        helper.make_node("Transpose", ["joined"], ["turned"], name=f"{name}_transpose"),
        helper.make_node("Mul", ["turned", "two"], ["scaled"], name=f"{name}_mul"),
        helper.make_node("MatMul", ["x", "turned"], ["product"], name=f"{name}_product"),
        helper.make_node("ReduceSum", ["scaled"], ["sum"], keepdims=0, name=f"{name}_sum"),
        helper.make_node("Add", ["product", "sum"], [f"{name}_y"], name=f"{name}_add"),
    ]
    constants = {"w": normal(8, 16, seed=4), "from": np.array(rows[:1]), "to": np.array(rows[1:]), "two": np.float32(2)}
    initializers = [numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()]
    output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, ["B", None])
    return helper.make_graph(nodes, name, [], [output], initializers)


def model() -> ir.Model:
    graph = helper.make_graph(
        [
            helper.make_node(
                "If", ["c"], ["y"], then_branch=branch("t", [0, 4]), else_branch=branch("e", [0, 6]), name="If"
            )
        ],
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", None])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return ir.from_proto(made)


FEEDS = [{"c": np.array(c), "x": normal(2, 16)} for c in (True, False)]


def test_constants_and_what_only_arranges_them_are_hoisted() -> None:
    before, after = model(), model()
    assert hoist_constants(after) == 4 + 4 + 3 + 3  # constants of two branches, Slice, Concat and Transpose of each
    assert operators(after)["If"] == 1
    outside = [node.op_type for node in after.graph]
    assert outside == ["Slice", "Concat", "Transpose", "Slice", "Concat", "Transpose", "If"]
    assert_same_outputs(before, after, *FEEDS)
    assert hoist_constants(after) == 0


def test_the_optimizer_computes_them_once() -> None:
    before = model()
    after = optimize(clone(before)).model
    assert [node.op_type for node in after.graph] == ["If"]
    assert_same_outputs(before, after, *FEEDS)


def test_equal_weights_of_a_branch_stay_one() -> None:
    """As in Silero VAD: the two branches of an inner If arrange the same weight in the same way."""
    shared = numpy_helper.from_array(normal(8, 16, seed=4), "w")
    bodies = []
    for name in ("t", "e"):
        nodes = [
            helper.make_node("Unsqueeze", ["w", f"{name}_axis"], [f"{name}_w"], name=f"{name}_unsqueeze"),
            helper.make_node("Mul", [f"{name}_w", "x"], [f"{name}_y"], name=f"{name}_mul"),
        ]
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [1, 8, 16])
        axis = numpy_helper.from_array(np.array([0]), f"{name}_axis")
        bodies.append(helper.make_graph(nodes, name, [], [output], [axis]))
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1], name="If")],
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [16]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 16])],
        [shared],
    )
    before = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    after = clone(before)
    hoist_constants(after)
    assert [node.op_type for node in after.graph] == ["Unsqueeze", "If"]
    assert_same_outputs(before, after, *[{"c": np.array(c), "x": normal(16)} for c in (True, False)])


def test_results_of_a_branch_stay() -> None:
    identity = helper.make_node("Identity", ["w"], ["y1"], name="identity")
    first = helper.make_graph(
        [identity],
        "first",
        [],
        [helper.make_tensor_value_info("y1", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(normal(4), "w")],
    )
    second = helper.make_graph(
        [],
        "second",
        [],
        [helper.make_tensor_value_info("v", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(normal(4, seed=2), "v")],
    )
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=first, else_branch=second, name="If")],
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    before = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    after = clone(before)
    assert hoist_constants(after) == 1
    assert_same_outputs(before, after, *[{"c": np.array(c)} for c in (True, False)])


CARRIED = """
    g (float[2,5] x) => (float[2,5] y, float[N,2,5] all) {{
        h, v, all = Loop(turns, yes, x, w) <
            body = b (int64 i, bool c, float[2,5] s, float[5,5] k) => (bool d, float[2,5] n, float[5,5] m, float[2,5] row) {{
                d = Identity(c) t = MatMul(s, k) n = Tanh(t) m = {0} row = Neg(n)
            }}
        >
        y = MatMul(h, v)
    }}
"""


def carried(passed: str) -> ir.Model:
    return build(CARRIED.format(passed), turns=np.array(4, np.int64), yes=np.array(True), w=normal(5, 5) / 3)


def test_a_constant_that_every_turn_passes_on_is_read_where_it_is() -> None:
    model = carried("Identity(k)")
    assert_applies(capture_constants, model, 1)
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    assert (len(loop.inputs), len(loop.outputs)) == (3, 2)
    assert loop.name


def test_what_a_turn_changes_is_carried_on() -> None:
    assert_refuses(capture_constants, carried("Neg(k)"))


def test_only_products_read_a_weight_of_a_loop() -> None:
    optimized = optimize(carried("Identity(k)")).model
    assert {user.op_type for user, _ in optimized.graph.initializers["w"].uses()} == {"MatMul"}


@pytest.mark.parametrize(("result", "passes"), [("m", "m = Identity(k)"), ("k", "")])
def test_a_constant_that_a_turn_gives_as_a_row_too_is_carried_on(result: str, passes: str) -> None:
    text = f"""g (float[2,5] x) => (float[2,5] y, float[4,5,5] all) {{ y, v, all = Loop(turns, yes, x, w) <
        body = b (int64 i, bool c, float[2,5] s, float[5,5] k) => (bool c, float[2,5] n, float[5,5] {result}, float[5,5] k) {{
            n = MatMul(s, k) {passes} }}
    > }}"""
    model = build(text, turns=np.array(4, np.int64), yes=np.array(True), w=normal(5, 5) / 3)
    assert_refuses(capture_constants, model)
    optimize(model)


def test_what_moves_into_the_main_graph_has_a_name_of_its_own() -> None:
    """One branch has a constant that is called like what the other one computes."""
    text = """g (bool c, float[2,4] x) => (float[2,4] y) { y = If(c) <
        then_branch = t () => (float[2,4] a) <float[4] w = {1, 2, 3, 4}> { a = Add(x, w) },
        else_branch = e () => (float[2,4] b) { w = Neg(x) b = Exp(w) }
    > }"""
    model = build(text)
    assert_applies(hoist_constants, model, 1, *[{"c": np.array(c), "x": normal(2, 4)} for c in (True, False)])
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
