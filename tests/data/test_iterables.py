import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from converter_lite.data.inputs import InputSpec
from converter_lite.data.iterables import IterableDataset
from converter_lite.errors import DataError

PICTURE = InputSpec("x", np.dtype(np.float32), (None, 3, 4, 4))
IDS = InputSpec("ids", np.dtype(np.int64), (None, None))
MASK = InputSpec("mask", np.dtype(np.int64), (None, None))


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((3, 4, 4), dtype=np.float32)


def only(sample: Any, *inputs: InputSpec) -> dict[str, np.ndarray]:
    (feed,) = IterableDataset([sample], inputs)
    return feed


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: [a], lambda a: (a,), lambda a: {"x": a}, lambda a: a[None]])
def test_a_sample_may_be_an_array_a_list_a_tuple_or_a_dictionary_with_or_without_batch(wrap: Any) -> None:
    feed = only(wrap(picture(0)), PICTURE)
    np.testing.assert_array_equal(feed["x"], picture(0)[None])
    assert feed["x"].flags.c_contiguous


@pytest.mark.parametrize("number", [7, 7.0, np.array(7, np.int32), np.array(7.0, np.float32)])
def test_a_number_gets_no_axis(number: Any) -> None:
    feed = only({"t": number}, InputSpec("t", np.dtype(np.float32), ()))
    assert feed["t"].shape == () and feed["t"].dtype == np.float32


def test_tuples_are_taken_in_input_order() -> None:
    feed = only((np.arange(4), np.ones(4, np.int32)), IDS, MASK)
    np.testing.assert_array_equal(feed["ids"], [[0, 1, 2, 3]])
    assert feed["mask"].dtype == np.int64


def test_a_plain_list_of_numbers_is_one_array() -> None:
    np.testing.assert_array_equal(only([5, 6, 7], IDS)["ids"], [[5, 6, 7]])
    np.testing.assert_array_equal(only([[5, 6, 7]], IDS)["ids"], [[5, 6, 7]])


def sources() -> dict[str, Any]:
    return {
        "sequence": [picture(n) for n in range(3)],
        "function": lambda: (picture(n) for n in range(3)),
        "generator": (picture(n) for n in range(3)),
    }


@pytest.mark.parametrize("kind", list(sources()))
def test_every_kind_of_source_can_be_read_several_times(kind: str) -> None:
    data = IterableDataset(sources()[kind], [PICTURE])
    for _ in range(3):
        feeds = list(data)
        assert len(feeds) == 3
        for number, feed in enumerate(feeds):
            np.testing.assert_array_equal(feed["x"][0], picture(number))
    assert len(data) == 3
    assert data.names == ["sample 1", "sample 2", "sample 3"]
    assert (data.notes, data.warnings) == ([], [])


@pytest.mark.parametrize("kind", list(sources()))
def test_length_and_fingerprint_do_not_need_a_pass_before(kind: str) -> None:
    assert len(IterableDataset(sources()[kind], [PICTURE])) == 3
    expected = IterableDataset(sources()["sequence"], [PICTURE]).fingerprint()
    assert IterableDataset(sources()[kind], [PICTURE]).fingerprint() == expected


def test_the_fingerprint_changes_with_a_value() -> None:
    one = IterableDataset([picture(0)], [PICTURE]).fingerprint()
    assert IterableDataset([picture(1)], [PICTURE]).fingerprint() != one


def test_an_endless_generator_is_read_up_to_the_limit_and_no_further() -> None:
    read: list[int] = []

    def endless() -> Iterator[np.ndarray]:
        for number in itertools.count():
            read.append(number)
            yield picture(number)

    data = IterableDataset(endless(), [PICTURE], limit=4)
    assert len(list(data)) == len(data) == 4
    assert len(list(data.head(2))) == 2
    assert len(data.head(9)) == 4
    assert read == [0, 1, 2, 3]


def test_two_passes_over_a_generator_may_overlap() -> None:
    data = IterableDataset((picture(n) for n in range(4)), [PICTURE])
    pairs = list(zip(data, data.head(4), strict=True))
    assert len(pairs) == 4
    for one, other in pairs:
        np.testing.assert_array_equal(one["x"], other["x"])


def test_a_generator_is_kept_on_disk_and_not_in_memory() -> None:
    import tracemalloc

    spec = InputSpec("x", np.dtype(np.float32), (None, 1 << 16))
    data = IterableDataset((np.full(1 << 16, n, np.float32) for n in range(40)), [spec])
    tracemalloc.start()
    total = sum(float(feed["x"][0, 0]) for feed in data) + sum(float(feed["x"][0, 0]) for feed in data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 2 * sum(range(40))
    assert peak < 10 * (1 << 18)


@pytest.mark.parametrize(
    ("sample", "inputs", "message"),
    [
        (picture(0)[:2], [PICTURE], r"sample 2, input 'x': shape \[2,4,4\], the model wants \[\?,3,4,4\]"),
        (picture(0).astype(np.complex64), [PICTURE], r"sample 2, input 'x': not an array of numbers"),
        ("text", [PICTURE], r"sample 2, input 'x': not an array of numbers"),
        (np.zeros(4, np.float32), [IDS], r"sample 2, input 'ids': type float32 .* the model wants int64"),
        ({"xx": 1}, [PICTURE], r"sample 2: the model has no input 'xx' \(did you mean 'x'\?\)"),
        ({"ids": np.arange(4)}, [IDS, MASK], r"sample 2: no value for the model input\(s\) mask"),
        ((picture(0), 3), [PICTURE], r"sample 2: 2 value\(s\) for 1 model input"),
        ([np.arange(4)], [IDS, MASK], r"sample 2: 1 value\(s\) for 2 model input"),
        (np.arange(4), [IDS, MASK], r"sample 2: one array for 2 model inputs \(ids, mask\)"),
        ([[1, 2], [3]], [IDS], r"sample 2, input 'ids': not an array"),
    ],
)
def test_what_does_not_fit_names_sample_and_input(sample: Any, inputs: list[InputSpec], message: str) -> None:
    good = {"x": picture(0), "ids": np.arange(4), "mask": np.arange(4)}
    first = {spec.name: good[spec.name] for spec in inputs}
    with pytest.raises(DataError, match=message):
        list(IterableDataset([first, sample], inputs))
    with pytest.raises(DataError, match=message):
        list(IterableDataset(iter([first, sample]), inputs))


def test_a_sample_with_nan_is_named_and_infinity_is_data() -> None:
    broken = np.full((3, 4, 4), np.inf, np.float32)
    assert np.isinf(only(broken, PICTURE)["x"]).all()
    broken[0, 0, 0] = np.nan
    with pytest.raises(DataError, match="sample 2, input 'x': the sample holds NaN"):
        list(IterableDataset([picture(0), broken], [PICTURE]))


def test_a_sample_of_which_every_input_is_empty_is_refused() -> None:
    batch, state = InputSpec("x", np.dtype(np.float32), (None, 2)), InputSpec("state", np.dtype(np.float32), (None, 3))
    empty, full = np.zeros((0, 2), np.float32), np.ones((1, 3), np.float32)
    with pytest.raises(DataError, match=r"sample 2: the sample holds nothing \(shape \[0,2\]\)"):
        list(IterableDataset([np.ones((1, 2), np.float32), empty], [batch]))
    assert only((empty, full), batch, state)["x"].shape == (0, 2)
    fixed = InputSpec("x", np.dtype(np.float32), (0, 2))
    assert only(empty, fixed)["x"].shape == (0, 2)


def test_integers_that_do_not_fit_the_type_are_refused() -> None:
    spec = InputSpec("ids", np.dtype(np.uint8), (None, 2))
    assert only(np.array([0, 255]), spec)["ids"].dtype == np.uint8
    with pytest.raises(DataError, match="cannot hold"):
        only(np.array([0, 256]), spec)


def test_integer_pictures_become_floats() -> None:
    assert only(np.ones((3, 4, 4), np.uint8), PICTURE)["x"].dtype == np.float32


def test_bfloat16_becomes_float32() -> None:
    sample = np.full((3, 4, 4), -1.5).astype(ml_dtypes.bfloat16)
    (given,) = only(sample, PICTURE).values()
    assert given.dtype == np.float32 and (given == -1.5).all()


@pytest.mark.parametrize(("wanted", "given"), [((3, 4, 5), (4, 5, 3)), ((4, 5, 3), (3, 4, 5))])
@pytest.mark.parametrize("batch", [(1,), ()], ids=["batch", "no batch"])
def test_a_sample_in_the_other_layout_is_told_how_to_transpose(
    wanted: tuple[int, ...], given: tuple[int, ...], batch: tuple[int, ...]
) -> None:
    spec = InputSpec("x", np.dtype(np.float32), (None, *wanted))
    sample = np.zeros((*batch, *given), np.float32)
    with pytest.raises(DataError, match=r"looks like N\w+: transpose it with") as failure:
        only(sample, spec)
    axes = [int(axis) for axis in failure.value.hint.rpartition("(")[2].rstrip(").").split(", ")]
    assert only(sample.transpose(axes), spec)["x"].shape == (1, *wanted)


def test_a_fixed_batch_asks_for_whole_batches() -> None:
    spec = InputSpec("x", np.dtype(np.float32), (2, 3))
    assert only(np.zeros((2, 3), np.float32), spec)["x"].shape == (2, 3)
    with pytest.raises(DataError, match="give 2 samples at a time"):
        only(np.zeros(3, np.float32), spec)


@pytest.mark.parametrize("source", [[], iter([]), lambda: iter([])])
def test_no_sample_at_all_is_an_error(source: Any) -> None:
    with pytest.raises(DataError, match="gave no sample"):
        list(IterableDataset(source, [PICTURE]))


def test_the_temporary_file_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = IterableDataset((picture(n) for n in range(3)), [PICTURE])
    list(data)
    del data
    assert list(tmp_path.iterdir()) == []
