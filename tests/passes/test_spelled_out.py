import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.passes.pipeline import optimize
from converter_lite.passes.spelled_out.constants import spell_out_constant_outputs
from converter_lite.passes.spelled_out.functions import (
    spell_out_celu,
    spell_out_log_softmax,
    spell_out_log_sum_exp,
    spell_out_selu,
)
from converter_lite.passes.spelled_out.images import spell_out_grouped_deconvolution, spell_out_rows
from converter_lite.passes.spelled_out.indexing import (
    spell_out_batched_gather,
    spell_out_gather_elements,
    spell_out_negative_indices,
    spell_out_reversal,
)
from converter_lite.passes.spelled_out.local_response import spell_out_local_response
from converter_lite.passes.spelled_out.logic import spell_out_is_infinite, spell_out_is_nan, spell_out_sign
from converter_lite.passes.spelled_out.padding import spell_out_integer_padding, spell_out_padding
from converter_lite.passes.spelled_out.products import spell_out_turned_gemm, spell_out_vector_products
from converter_lite.passes.spelled_out.resizing import spell_out_resize
from converter_lite.passes.spelled_out.whole_numbers import spell_out_whole_numbers
from tests.support import (
    assert_applies,
    assert_refuses,
    assert_same_outputs,
    build,
    clone,
    normal,
    operators,
    random_feed,
)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("constant", [True, False])
def test_elements_are_picked_from_a_row_of_all(axis: int, constant: bool) -> None:
    given = "" if constant else ", int32[2,3,2] i"
    text = f"g (float[3,4,3] x{given}) => (float[2,3,2] y) {{ y = GatherElements<axis={axis}>(x, i) }}"
    picks = np.random.default_rng(3).integers(-3 if constant else 0, 3, (2, 3, 2)).astype(np.int32)
    model = build(text, **({"i": picks} if constant else {}))
    feed = {**random_feed(model), **({} if constant else {"i": picks})}
    assert_applies(spell_out_gather_elements, model, 1, feed)
    assert operators(model)["Gather"] == 1


def test_truth_values_are_not_picked_from_a_row() -> None:
    text = "g (bool[3,4] x, int64[2,4] i) => (bool[2,4] y) { y = GatherElements(x, i) }"
    assert_refuses(spell_out_gather_elements, build(text))


@pytest.mark.parametrize(
    ("batch", "indices"),
    [
        (1, np.array([[1], [3]])),
        (1, np.array([[[0, 1], [3, -1]], [[2, 2], [0, 0]]])),
        (2, np.arange(6).reshape(2, 3, 1) % 4),
    ],
    ids=["one axis", "two axes", "two batches"],
)
def test_batches_become_indices(batch: int, indices: np.ndarray) -> None:
    rank = 3 - batch - indices.shape[-1] + indices.ndim - 1
    text = f"g (float[2,{3 if batch == 2 else 4},4] x) => (float[{','.join('abcd'[:rank])}] y) "
    text += f"{{ r = Neg(x) y = GatherND<batch_dims={batch}>(r, i) }}"
    assert_applies(spell_out_batched_gather, build(text, i=indices), 1)


def test_computed_indices_stand_behind_their_batches() -> None:
    text = "g (float[2,3,4] x, int64[2,2,1] i) => (float[2,2,4] y) { y = GatherND<batch_dims=1>(x, i) }"
    places = {"x": normal(2, 3, 4), "i": np.array([[0, -1], [2, 1]])[..., None]}
    assert_applies(spell_out_batched_gather, build(text), 1, places)


def test_a_gather_without_batches_stays() -> None:
    assert_refuses(
        spell_out_batched_gather,
        build("g (float[3,4] x) => (float[2,4] y) { y = GatherND(x, i) }", i=np.array([[1], [2]])),
    )


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(
    ("groups", "filters", "attributes", "size"),
    [
        (2, (6, 5, 3, 3), "", "10,6,7"),
        (3, (6, 1, 3, 3), "strides=[2,2], pads=[1,0,1,1]", "3,7,10"),
        (2, (6, 2, 2, 2), 'strides=[2,2], auto_pad="SAME_UPPER"', "4,8,10"),
    ],
)
def test_groups_of_a_deconvolution_are_computed_one_by_one(
    groups: int, filters: tuple[int, ...], attributes: str, size: str, opset: int
) -> None:
    comma = ", " if attributes else ""
    text = f"g (float[2,6,4,5] x) => (float[2,{size}] y) {{ y = ConvTranspose<group={groups}{comma}{attributes}>(x, w, b) }}"
    model = build(text, opset=opset, w=normal(*filters), b=normal(filters[1] * groups))
    assert_applies(spell_out_grouped_deconvolution, model, 1)
    assert operators(model) == {"Split": 1, "ConvTranspose": groups, "Concat": 1}


def test_depthwise_and_plain_deconvolutions_stay() -> None:
    for groups, filters in ((6, (6, 1, 3, 3)), (1, (6, 2, 3, 3))):
        text = f"g (float[2,6,4,5] x) => (float[2,n,6,7] y) {{ y = ConvTranspose<group={groups}>(x, w) }}"
        assert_refuses(spell_out_grouped_deconvolution, build(text, w=normal(*filters)))


DILATED = "g (float[2,6,14,9] x) => (float[2,6,h,w] y) {{ y = ConvTranspose<group=6, {}>(x, f, b) }}"


@pytest.mark.parametrize("attributes", ["dilations=[5,1], pads=[10,1,10,1]", "dilations=[2,3], pads=[0,1,3,6]"])
def test_dilated_depthwise_deconvolutions_are_convolutions(attributes: str) -> None:
    model = build(DILATED.format(attributes), f=normal(6, 1, 3, 3), b=normal(6))
    assert_applies(spell_out_grouped_deconvolution, model, 1)
    assert operators(model) == {"Conv": 1}


@pytest.mark.parametrize(
    "attributes",
    ["dilations=[2,2], pads=[5,0,0,0]", "dilations=[1,2], strides=[2,2]", 'dilations=[2,2], auto_pad="SAME_UPPER"'],
)
def test_other_dilated_depthwise_deconvolutions_stay(attributes: str) -> None:
    assert_refuses(
        spell_out_grouped_deconvolution, build(DILATED.format(attributes), f=normal(6, 1, 3, 3), b=normal(6))
    )


@pytest.mark.parametrize("level", ["none", "general"])
def test_only_what_a_format_lacks_is_spelled_out(level: str) -> None:
    text = (
        "g (float[3,4,2] x, float[2,4,2] u) => (float[3,4,2] y) { a = Neg(x) b = ScatterND(a, places, u) y = Relu(b) }"
    )
    model = build(text, places=np.array([[2], [0]]), opset=16)
    kept = optimize(clone(model), level=level).model
    assert operators(kept)["ScatterND"] == 1
    changed = optimize(clone(model), level=level, spelled_out=frozenset({"ScatterND", "ConvTranspose"})).model
    assert operators(changed)["ScatterND"] == 0
    assert_same_outputs(model, changed, random_feed(model))


def test_negative_indices_are_counted_from_the_front() -> None:
    text = "g (float[3,4] x) => (float[3,2] y) { y = Gather<axis=1>(x, i) }"
    model = build(text, i=np.array([-1, 2]))
    assert_applies(spell_out_negative_indices, model, 1)
    assert_refuses(spell_out_negative_indices, build(text, i=np.array([3, 2])))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("pads", "axes", "size"),
    [
        ([0, 1, 0, 2, 0, 2, 1, 0], None, "1,7,7,7"),
        ([1, 0, 0, 0, 0, 0, 0, 0], None, "2,4,6,5"),
        ([2, 0], [1], "1,6,6,5"),
    ],
)
def test_padding_by_repetition_is_a_choice_along_each_axis(
    mode: str, pads: list[int], axes: list[int] | None, size: str
) -> None:
    if pads[0] and axes is None and mode == "reflect":
        pads = [0, 1, 0, 0, 0, 0, 0, 0]
        size = "1,5,6,5"
    more = {} if axes is None else {"axes": np.array(axes)}
    inputs = "x, pads" if axes is None else "x, pads, , axes"
    text = f'g (float[1,4,6,5] x) => (float[{size}] y) {{ y = Pad<mode="{mode}">({inputs}) }}'
    assert_applies(spell_out_padding, build(text, opset=19, pads=np.array(pads), **more), 1)


def test_a_picture_that_goes_round_is_gathered() -> None:
    text = 'g (float[1,4,6,5] x) => (float[n,c,h,w] y) { y = Pad<mode="wrap">(x, pads) }'
    assert_applies(spell_out_padding, build(text, opset=19, pads=np.array([0, 0, 1, 2, 0, 0, 1, 0])), 1)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[0, 0, -1, 2, 0, 0, 1, -2], [0, -1, 0, 0, 0, 0, 0, 0], [0, 0, -2, 0, 0, -1, 1, 0]])
def test_what_negative_pads_cut_off_is_a_slice(mode: str, pads: list[int]) -> None:
    text = f'g (float[1,4,6,5] x) => (float[n,c,h,w] y) {{ y = Pad<mode="{mode}">(x, pads) }}'
    model = build(text, opset=19, pads=np.array(pads))
    cut = clone(model)
    while spell_out_padding(cut):
        assert "Slice" in operators(cut)
    assert operators(cut)["Pad"] == int(max(pads) > 0 and mode != "wrap")
    assert_same_outputs(model, cut, random_feed(model))


def test_a_border_as_wide_as_the_picture_is_gathered() -> None:
    text = 'g (float[1,3,4,5] x) => (float[1,3,9,7] y) { y = Pad<mode="edge">(x, pads) }'
    model = build(text, pads=np.array([0, 0, 1, 1, 0, 0, 4, 1]))
    assert_applies(spell_out_padding, model, 1)
    assert operators(model)["Gather"] == 2


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_a_pad_of_rows_that_cuts_and_repeats_is_one_of_a_picture(mode: str) -> None:
    text = f'g (float[2,6] x) => (float[2,6] y) {{ y = Pad<mode="{mode}">(x, pads) }}'
    model = build(text, opset=19, pads=np.array([0, 1, 0, -1]))
    cut = clone(model)
    assert spell_out_padding(cut) == 1
    assert spell_out_padding(cut) == 0
    assert_same_outputs(model, cut, random_feed(model))


def test_a_pad_that_cuts_everything_off_stays() -> None:
    text = "g (float[1,4,6,5] x) => (float[n,c,h,w] y) { y = Pad(x, pads) }"
    assert_refuses(spell_out_padding, build(text, opset=19, pads=np.array([0, 0, -3, 0, 0, 0, -3, 0])))


@pytest.mark.parametrize(
    ("mode", "pads"), [("reflect", [0, 0, 1, 2, 0, 0, 1, 0]), ("constant", [0, 1, 0, 0, 0, 1, 0, 0])]
)
def test_padding_of_a_picture_and_with_a_number_stays(mode: str, pads: list[int]) -> None:
    text = f'g (float[1,4,6,5] x) => (float[n,c,h,w] y) {{ y = Pad<mode="{mode}">(x, pads) }}'
    assert_refuses(spell_out_padding, build(text, pads=np.array(pads)))


@pytest.mark.parametrize(
    ("node", "size"),
    [
        ("MaxPool<kernel_shape=[3], strides=[2], pads=[1,0]>", 5),
        ("AveragePool<kernel_shape=[3], strides=[2], pads=[1,1], count_include_pad=1>", 5),
        ('MaxPool<kernel_shape=[4], auto_pad="SAME_UPPER">', 10),
        ("MaxPool<kernel_shape=[2], dilations=[3]>", 7),
        ("GlobalAveragePool", 1),
        ("GlobalMaxPool", 1),
    ],
)
def test_pooling_of_rows_is_pooling_of_pictures_of_one_line(node: str, size: int) -> None:
    assert_applies(spell_out_rows, build(f"g (float[2,3,10] x) => (float[2,3,{size}] y) {{ y = {node}(x) }}"), 1)


@pytest.mark.parametrize(
    "attributes", ["strides=[2], pads=[1,0], output_padding=[1]", "dilations=[2]", "group=2, kernel_shape=[4]"]
)
def test_transposed_convolutions_of_rows_are_of_pictures_of_one_line(attributes: str) -> None:
    text = f"g (float[2,6,10] x) => (float[2,C,L] y) {{ y = ConvTranspose<{attributes}>(x, w, b) }}"
    model = build(text, w=normal(6, 4, 4), b=normal(8 if "group" in attributes else 4))
    assert_applies(spell_out_rows, model, 1)
    assert operators(model) == {"Reshape": 2, "ConvTranspose": 1}


def test_a_turned_gemm_reads_a_transpose() -> None:
    text = "g (float[8,3] x) => (float[3,5] y) { y = Gemm<transA=1, alpha=0.5>(x, w, b) }"
    model = build(text, w=normal(8, 5), b=normal(5))
    assert_applies(spell_out_turned_gemm, model, 1)
    assert operators(model) == {"Transpose": 1, "Gemm": 1}


@pytest.mark.parametrize(
    ("left", "right", "size"), [("2,3,8", "8", "2,3"), ("8", "8,5", "5"), ("8", "2,8,5", "2,5"), ("8", "8", "")]
)
def test_vectors_in_products_are_matrices(left: str, right: str, size: str) -> None:
    text = (
        f"g (float[{left}] a, float[{right}] b) => (float[1,{size}] y) {{ m = MatMul(a, b) y = Unsqueeze(m, first) }}"
    )
    model = build(text.replace("[1,]", "[1]"), first=np.array([0]))
    assert_applies(spell_out_vector_products, model, 1)


@pytest.mark.parametrize(
    ("kind", "value"), [("float[2]", "value_floats = [1.0, -2.0]"), ("int64[1]", "value_ints = [3]")]
)
def test_a_constant_that_is_an_output_is_copied(kind: str, value: str) -> None:
    model = build(f"g (float[2,3] x) => (float[2,3] y, {kind} k) {{ y = Relu(x) k = Constant<{value}>() }}")
    assert_applies(spell_out_constant_outputs, model, 1, random_feed(model))
    assert operators(model) == {"Relu": 1, "Identity": 1}


def test_nan_is_what_is_not_at_most_infinite() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { b = IsNaN(x) y = Cast<to=1>(b) }"
    feed = {"x": np.array([[1, np.nan, np.inf], [np.nan, 0, -np.inf]], np.float32)}
    assert_applies(spell_out_is_nan, build(text), 1, feed)


@pytest.mark.parametrize("attributes", ["", "<detect_negative=0>", "<detect_positive=0>"])
def test_infinite_is_what_is_larger_than_every_number(attributes: str) -> None:
    text = f"g (float[2,3] x) => (float[2,3] y) {{ b = IsInf{attributes}(x) y = Cast<to=1>(b) }}"
    feed = {"x": np.array([[3.4e38, np.nan, np.inf], [-3.4e38, 0, -np.inf]], np.float32)}
    assert_applies(spell_out_is_infinite, build(text), 1, feed)


MODES = ('mode="cubic"', 'mode="linear"', 'mode="nearest", nearest_mode="round_prefer_ceil"')


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners"]
)
def test_a_resize_of_odd_sizes_is_gathered_or_multiplied(mode: str, coordinates: str) -> None:
    attributes = f'{mode}, coordinate_transformation_mode="{coordinates}", axes=[3,2]'
    text = f"g (float[2,3,7,4] x) => (float[2,3,12,3] y) {{ y = Resize<{attributes}>(x,,, sizes) }}"
    model = build(text, opset=19, ir_version=9, sizes=np.array([3, 12]))
    assert_applies(spell_out_resize, model, 1)
    assert operators(model)["Resize"] == 0


@pytest.mark.parametrize(
    "attributes",
    [
        'mode="linear"',
        'mode="linear", coordinate_transformation_mode="align_corners"',
        'mode="nearest"',
        'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
        'mode="linear", antialias=1',
        'mode="cubic", coordinate_transformation_mode="tf_crop_and_resize"',
    ],
)
def test_a_resize_of_pictures_that_runtimes_have_stays(attributes: str) -> None:
    text = f"g (float[1,3,7,4] x) => (float[1,3,14,8] y) {{ y = Resize<{attributes}>(x,,, sizes) }}"
    assert_refuses(spell_out_resize, build(text, opset=19, ir_version=9, sizes=np.array([1, 3, 14, 8])))


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize(
    "attributes",
    [
        'mode="linear", antialias=1',
        'mode="cubic", antialias=1',
        'mode="cubic", exclude_outside=1',
        'mode="cubic", antialias=1, exclude_outside=1, cubic_coeff_a=-0.5',
    ],
)
def test_a_wider_filter_and_one_that_ends_at_the_border_are_multiplied(attributes: str, coordinates: str) -> None:
    attributes += f', coordinate_transformation_mode="{coordinates}"'
    text = f"g (float[1,3,17,9] x) => (float[1,3,5,14] y) {{ y = Resize<{attributes}>(x,,, sizes) }}"
    model = build(text, opset=19, ir_version=9, sizes=np.array([1, 3, 5, 14]))
    assert_applies(spell_out_resize, model, 1)
    assert operators(model)["Resize"] == 0


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        ([14, 6, 8, 6], ', coordinate_transformation_mode="asymmetric", nearest_mode="floor"'),
        ([4, 12, 4, 74], ', coordinate_transformation_mode="asymmetric", nearest_mode="floor"'),
        ([2, 3, 82, 3], ""),
    ],
)
def test_nearest_elements_are_gathered_where_a_ratio_takes_others(sizes: list[int], attributes: str) -> None:
    height, width, *wanted = sizes
    text = (
        f"g (float[1,3,{height},{width}] x) => (float[1,3,{wanted[0]},{wanted[1]}] y) "
        f'{{ y = Resize<mode="nearest"{attributes}>(x,,, sizes) }}'
    )
    assert_applies(spell_out_resize, build(text, sizes=np.array([1, 3, *wanted])), 1)


def test_factors_that_are_not_those_of_the_sizes_count() -> None:
    text = 'g (float[1,3,7,4] x) => (float[1,3,10,9] y) { y = Resize<mode="linear">(x,, scales) }'
    assert_applies(spell_out_resize, build(text, scales=np.array([1, 1, 1.5, 2.4], np.float32)), 1)


@pytest.mark.parametrize("kind", ["float", "int32"])
def test_a_sign_is_a_difference_of_comparisons(kind: str) -> None:
    x = np.array([-3, 0, 2, 1], np.float32 if kind == "float" else np.int32)
    assert_applies(spell_out_sign, build(f"g ({kind}[4] x) => ({kind}[4] y) {{ y = Sign(x) }}"), 1, {"x": x})


@pytest.mark.parametrize("node", ["Celu", "Celu<alpha=0.4>", "Selu", "Selu<alpha=1.2, gamma=2.0>"])
def test_scaled_elus_are_elus(node: str) -> None:
    rule = spell_out_celu if node.startswith("Celu") else spell_out_selu
    assert_applies(rule, build(f"g (float[3,4] x) => (float[3,4] y) {{ y = {node}(x) }}"), 1)


def test_a_celu_that_turns_round_stays() -> None:
    assert_refuses(spell_out_celu, build("g (float[3,4] x) => (float[3,4] y) { y = Celu<alpha=-0.4>(x) }"))


@pytest.mark.parametrize("version", [13, 18])
@pytest.mark.parametrize(("axes", "keep", "size"), [([1], 1, "3,1,5"), ([0, -1], 0, "4"), (None, 1, "1,1,1")])
def test_the_logarithm_of_a_sum_of_powers_does_not_overflow(
    axes: list[int] | None, keep: int, size: str, version: int
) -> None:
    attributes, given, stored = f"keepdims={keep}", "x", {}
    if axes is not None and version < 18:
        attributes += f", axes={axes}"
    elif axes is not None:
        given, stored = "x, axes", {"axes": np.array(axes)}
    text = f"g (float[3,4,5] x) => (float[{size}] y) {{ y = ReduceLogSumExp<{attributes}>({given}) }}"
    model = build(text, opset=version, **stored)
    feed = random_feed(model)
    assert_applies(spell_out_log_sum_exp, model, 1, feed, {"x": feed["x"] * 100})


@pytest.mark.parametrize("version", [13, 18])
def test_the_logarithm_of_a_share_that_is_no_number_is_finite(version: int) -> None:
    model = build("g (float[3,4] x) => (float[3,4] y) { y = LogSoftmax<axis=0>(x) }", opset=version)
    feed = random_feed(model)
    assert_applies(spell_out_log_softmax, model, 1, feed, {"x": feed["x"] * 1000})


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ("1,6,4,5", "size = 5, alpha = 0.2, beta = 0.6, bias = 2.0"),
        ("2,4,3,3", "size = 3"),
        ("2,4,7,1", "size = 1, alpha = 0.5"),
        ("1,3,2,2", "size = 7, alpha = 1.0"),
    ],
)
def test_a_local_response_is_a_pool_along_the_channels(shape: str, attributes: str) -> None:
    model = build(f"g (float[{shape}] x) => (float[{shape}] y) {{ r = Neg(x) y = LRN<{attributes}>(r) }}")
    assert_applies(spell_out_local_response, model, 1)
    assert operators(model)["AveragePool"] == 1


def test_local_responses_of_unknown_form_stay() -> None:
    for shape, size in (("1,6,4,5", 4), ("N,6,4,5", 5)):
        model = build(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = LRN<size = {size}>(x) }}")
        assert_refuses(spell_out_local_response, model)


@pytest.mark.parametrize(("axes", "lengths"), [((0, 1), [4, 4, 4]), ((1, 0), [3, 3, 3, 3]), ((0, 1), [2, 2, 2])])
def test_sequences_of_one_length_are_gathered_backwards(axes: tuple[int, int], lengths: list[int]) -> None:
    time, batch = axes
    model = build(
        f"""
        g (float[4,3,2] x) => (float[4,3,2] y) {{
            r = Neg(x) y = ReverseSequence<time_axis = {time}, batch_axis = {batch}>(r, lengths)
        }}
        """,
        lengths=np.array(lengths, np.int64),
    )
    assert_applies(spell_out_reversal, model, 1)
    assert operators(model) == {"Neg": 1, "Gather": 1}


def test_sequences_of_other_lengths_stay() -> None:
    text = "g (float[4,3] x{}) => (float[4,3] y) {{ y = ReverseSequence(x, lengths) }}"
    lengths = np.array([4, 2, 4], np.int64)
    assert_refuses(spell_out_reversal, build(text.format(""), lengths=lengths))
    assert_refuses(spell_out_reversal, build(text.format(", int64[3] lengths")))


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    "bounded", ["Abs(x)", "Clip(x, low, high)", "Clip(x, , high)", "Clip(x, low)", "Max(x, row, high)", "Min(row, x)"]
)
def test_whole_numbers_are_bounded_by_choices(bounded: str, kind: str) -> None:
    constants = {"low": np.array(-1, kind), "high": np.array(2, kind), "row": np.array([[0, -5, 5, 1]], kind)}
    used = {name: array for name, array in constants.items() if name in bounded}
    model = build(f"g ({kind}[3,4] x) => ({kind}[3,4] y) {{ y = {bounded} }}", opset=18, **used)
    assert_applies(spell_out_whole_numbers, model, 1, {"x": np.arange(-6, 6).reshape(3, 4).astype(kind)})
    assert not {"Abs", "Clip", "Max", "Min"} & set(operators(model))


@pytest.mark.parametrize(("kind", "fill"), [("int32", ", seven"), ("int64", ", seven"), ("int64", "")])
def test_whole_numbers_are_padded_with_constants(kind: str, fill: str) -> None:
    model = build(
        f"g ({kind}[2,3,4] x) => ({kind}[3,3,7] y) {{ y = Pad(x, pads{fill}, axes) }}".replace(
            "pads, axes", "pads, , axes"
        ),
        opset=18,
        pads=np.array([1, 2, 0, 1]),
        axes=np.array([0, -1]),
        **({"seven": np.array(7, kind)} if fill else {}),
    )
    assert_applies(spell_out_integer_padding, model, 1, {"x": np.arange(24).reshape(2, 3, 4).astype(kind)})
    assert operators(model)["Pad"] == 0


@pytest.mark.parametrize("pads", [[-1, 0, 2, -1], [-1, 0, 0, -2]])
def test_what_a_pad_of_whole_numbers_cuts_off_is_sliced(pads: list[int]) -> None:
    model = build("g (int64[3,4] x) => (int64[M,N] y) { y = Pad(x, pads) }", pads=np.array(pads))
    assert_applies(spell_out_integer_padding, model, 1, {"x": np.arange(12).reshape(3, 4)})
    assert operators(model)["Pad"] == 0


@pytest.mark.parametrize(
    ("kind", "mode", "pads"),
    [("float", "constant", [1, 1]), ("int64", "reflect", [1, 1]), ("int64", "constant", [-5, 1])],
)
def test_other_pads_stay(kind: str, mode: str, pads: list[int]) -> None:
    model = build(f'g ({kind}[4] x) => ({kind}[N] y) {{ y = Pad<mode="{mode}">(x, pads) }}', pads=np.array(pads))
    assert_refuses(spell_out_integer_padding, model)


def test_truth_values_that_another_rule_moves_are_moved_as_floats() -> None:
    text = "g (float[2,6,3] x) => (bool[2,6,3] y) { t = Greater(x, zero) "
    text += "r = ReverseSequence<batch_axis=0, time_axis=1>(t, n) y = Not(r) }"
    model = build(text, n=np.array([4, 4]), zero=np.float32(0))
    after = optimize(clone(model), spelled_out=frozenset({"ReverseSequence", "Expand of truth values"})).model
    moved = [node for node in after.graph if node.op_type in ("Gather", "Slice", "Transpose")]
    assert moved
    assert {node.inputs[0].dtype for node in moved if node.inputs[0] is not None} == {ir.DataType.FLOAT}
    assert_same_outputs(model, after, random_feed(model))
