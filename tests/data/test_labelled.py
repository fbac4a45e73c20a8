"""Labelled pictures: folders by class and CSV files, and each mistake in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from converter_lite.data.labelled import read_classes, read_labelled
from converter_lite.errors import DataError

NAMES = ("dog", "cat")


def picture(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (2, 2)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cat/b.png", "cat/a.png", "dog/.hidden.png", "dog/a.png"):
        picture(tmp_path / name)
    return tmp_path


def found(path: Path, names: tuple[str, ...] = (), outputs: int = 2) -> list[tuple[str, int]]:
    read = read_labelled(path, names, outputs)
    return [(f"{file.parent.name}/{file.name}", label) for file, label in zip(read.files, read.labels, strict=True)]


def test_folders_are_classes_in_the_order_of_their_names_or_of_a_list(folder: Path) -> None:
    assert found(folder) == [("cat/a.png", 0), ("cat/b.png", 0), ("dog/a.png", 1)]
    assert found(folder, NAMES) == [("cat/a.png", 1), ("cat/b.png", 1), ("dog/a.png", 0)]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ("path,label\r\ncat/a.png,1\r\ndog/a.png,0\r\n", ()),
        ('"cat/a.png",1\n\n dog/a.png, 0', ()),
        ("cat/a.png,cat\ndog/a.png,dog\n", NAMES),
    ],
)
def test_rows_are_pictures_beside_the_file(rows: str, names: tuple[str, ...], folder: Path) -> None:
    (folder / "list.csv").write_text(rows, encoding="utf-8")
    assert found(folder / "list.csv", names) == [("cat/a.png", 1), ("dog/a.png", 0)]


@pytest.mark.parametrize(
    ("rows", "where", "message"),
    [
        ("cat/a.png,0\ncat/b.png\n", "list.csv:2", "1 cells, where a path and a label should stand"),
        ("cat/a.png,0\ndog/c.png,1\n", "list.csv:2", "there is no file"),
        ("path,label\ncat/a.png,0\ndog/a.png,2\n", "list.csv:3", "label '2' is not a number from 0 to 1"),
        ("cat/a.png,cat\n", "list.csv:1", "label 'cat' is not a number"),
        ('cat/a.png,"0\n', "list.csv:1", "unexpected end of data"),
        ("cat/a.png,1\ncat/b.png,1\n", "list.csv", "all pictures are of one class"),
        ("path,label\n", "list.csv", "there are no pictures"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(rows: str, where: str, message: str, folder: Path) -> None:
    (folder / "list.csv").write_text(rows, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        read_labelled(folder / "list.csv", (), 2)
    assert caught.value.where == str(folder / where)


def remove_dogs(folder: Path) -> None:
    (folder / "dog/a.png").unlink()


def add_a_text(folder: Path) -> None:
    (folder / "cat/notes.txt").write_text("x", encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "names", "outputs", "message"),
    [
        (lambda folder: None, (), 3, "2 folders, but the model has 3 outputs"),
        (lambda folder: None, (*NAMES, "hen"), 2, "3 names of classes, but the model has 2 outputs"),
        (lambda folder: None, ("dog", "cats"), 2, "no class has the name of the folder; did you mean cats"),
        (add_a_text, (), 2, "this is not a picture"),
        (remove_dogs, (), 2, "all pictures are of one class"),
    ],
)
def test_folders_that_do_not_fit_are_refused(
    change: Callable[[Path], None], names: tuple[str, ...], outputs: int, message: str, folder: Path
) -> None:
    change(folder)
    with pytest.raises(DataError, match=message):
        read_labelled(folder, names, outputs)


def test_what_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="there is no such folder or CSV file"):
        read_labelled(folder / "absent", (), 2)
    with pytest.raises(DataError, match="it has no folders"):
        read_labelled(folder / "cat", (), 2)


def test_names_of_classes_stand_once(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("dog\n\n cat \n", encoding="utf-8")
    assert read_classes(tmp_path / "names") == list(NAMES)
    (tmp_path / "names").write_text("dog\ndog\n", encoding="utf-8")
    with pytest.raises(DataError, match="stands there twice"):
        read_classes(tmp_path / "names")
    (tmp_path / "names").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_classes(tmp_path / "names")


def test_a_pipe_holds_no_names_of_classes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="this is not a regular file"):
        read_classes(tmp_path / "pipe")
