import numpy as np
import pytest

from converter_lite.passes.spelled_out.einsum import spell_out_einsum
from tests.support import (
    assert_applies,
    assert_refuses,
    build,
    normal,
    operators,
    since,
)

EQUATIONS = {
    "bhqd,bkhd->bhqk": ("2,3,4,5", "2,6,3,5", "2,3,4,6"),
    "bchw,bdhw->bcd": ("2,3,4,5", "2,6,4,5", "2,3,6"),
    "ij,jk": ("3,4", "4,5", "3,5"),
    "i,j->ji": ("3", "4", "4,3"),
    "i,i->": ("3", "3", ""),
    "...ij,...jk->...ik": ("2,3,4,5", "2,3,5,6", "2,3,4,6"),
    "...d,de->...e": ("2,3,5", "5,6", "2,3,6"),
    "bnk,bq->bqn": ("2,3,4", "2,5", "2,5,3"),
    "ijk->kj": ("3,4,5", "", "5,4"),
    "ij->ij": ("3,4", "", "3,4"),
}


TURNED_SUM = since("onnxruntime", 1, 31, reason="an Einsum that sums and turns ends with an error, in 1.22 at least")


@pytest.mark.parametrize("equation", [pytest.param(e, marks=TURNED_SUM if e == "ijk->kj" else ()) for e in EQUATIONS])
@pytest.mark.parametrize("constant", [False, True])
def test_an_einsum_is_a_product_of_matrices(equation: str, constant: bool) -> None:
    first, second, result = EQUATIONS[equation]
    stored = {"b": normal(*map(int, second.split(",")))} if constant and second else {}
    fed = f"float[{first}] a" + (f", float[{second}] b" if second and not stored else "")
    operands = "n, b" if second else "n"
    sizes = result or "1"
    text = f'g ({fed}) => (float[{sizes}] y) {{ n = Neg(a) e = Einsum<equation="{equation}">({operands}) '
    model = build(text + "y = Reshape(e, sizes) }", sizes=np.array([*map(int, sizes.split(","))]), **stored)
    assert_applies(spell_out_einsum, model, 1)
    assert operators(model)["Einsum"] == 0


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("bhij,bjhd,hdm->bim", ("2,3,4,5", "2,5,3,2", "3,2,6", "2,4,6")),
        ("bkh,bkhd,bk->bd", ("2,3,4", "2,3,4,5", "2,3", "2,5")),
        ("i,j,k->kij", ("2", "3", "4", "4,2,3")),
    ],
)
def test_an_einsum_of_three_is_one_product_after_the_other(equation: str, sizes: tuple[str, str, str, str]) -> None:
    fed = ", ".join(f"float[{size}] {name}" for name, size in zip("abc", sizes, strict=False))
    text = f'g ({fed}) => (float[{sizes[-1]}] y) {{ e = Einsum<equation="{equation}">(a, b, c) y = Neg(e) }}'
    model = build(text)
    assert_applies(spell_out_einsum, model, 1)
    assert (operators(model)["Einsum"], operators(model)["MatMul"]) == (0, 2)


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [("blq,blk->blqk", ("2,3,4", "2,3,5", "2,3,4,5")), ("lb,bkl->kbl", ("3,2", "2,4,3", "4,2,3"))],
)
def test_integers_are_multiplied_element_by_element(equation: str, sizes: tuple[str, str, str]) -> None:
    text = f"g (int64[{sizes[0]}] a, int64[{sizes[1]}] b) => (int64[{sizes[2]}] y) {{ n = Neg(a) "
    model = build(text + f'e = Einsum<equation="{equation}">(n, b) y = Neg(e) }}')
    assert_applies(spell_out_einsum, model, 1)
    assert (operators(model)["Einsum"], operators(model)["Mul"]) == (0, 1)


def test_sums_of_integers_stay() -> None:
    text = 'g (int64[2,3] a, int64[3,4] b) => (int64[2,4] y) { e = Einsum<equation="ij,jk->ik">(a, b) y = Neg(e) }'
    assert_refuses(spell_out_einsum, build(text))


@pytest.mark.parametrize(("equation", "size"), [("ii->i", "3,3"), ("ii->", "3,3")])
def test_diagonals_stay(equation: str, size: str) -> None:
    text = f'g (float[{size}] a) => (float[n] y) {{ e = Einsum<equation="{equation}">(a) y = Abs(e) }}'
    assert_refuses(spell_out_einsum, build(text))
