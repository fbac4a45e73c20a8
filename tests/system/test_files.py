from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from converter_lite.cli.failure_json import may_replace
from converter_lite.errors import ConverterError, UsageError
from converter_lite.system.files import destination, destinations, refuse_overwrite, transaction, write_text


def make(work: Path, name: str, text: str) -> Path:
    path = work / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def put(folder: Path, **texts: str) -> None:
    with transaction(folder) as files:
        for name, text in texts.items():
            files.add(make(files.work, name, text), folder / name)
        files.commit()


def test_files_appear_with_mode_0644_and_nothing_else_is_left(tmp_path: Path) -> None:
    put(tmp_path, a="new a", b="new b")
    assert contents(tmp_path) == {"a": "new a", "b": "new b"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}


def test_nothing_exists_before_the_commit(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with transaction(tmp_path) as files:
        files.add(make(files.work, "a", "new"), tmp_path / "a")
        files.add(make(files.work, "b", "new"), tmp_path / "b")
        assert (tmp_path / "a").read_text() == "old"
        assert not (tmp_path / "b").exists()
        assert files.work.parent == tmp_path
    assert contents(tmp_path) == {"a": "old"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_before_the_commit_leaves_everything_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(error), transaction(tmp_path) as files:
        files.add(make(files.work, "a", "new"), tmp_path / "a")
        raise error
    assert contents(tmp_path) == {"a": "old"}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("broken", ["a", "b", "c"])
def test_a_commit_that_stops_half_way_brings_back_what_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, broken: str
) -> None:
    (tmp_path / "a").write_text("old a")
    (tmp_path / "c").write_text("old c")
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if self.name == broken:
            raise error
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    expected = ConverterError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        put(tmp_path, a="new a", b="new b", c="new c")
    assert contents(tmp_path) == {"a": "old a", "c": "old c"}


def test_a_full_disk_is_a_user_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConverterError, match="cannot write: No space left on device") as error, transaction(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "big"))
    assert error.value.where == str(tmp_path / "big")
    assert "space" in error.value.hint
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("named", [False, True])
def test_a_full_disk_is_reported_with_the_folder_of_the_result(tmp_path: Path, named: bool) -> None:
    with pytest.raises(ConverterError) as error, transaction(tmp_path) as files:
        raise OSError(errno.ENOSPC, "No space left on device", *([str(files.work / "made")] if named else []))
    assert error.value.where == str(tmp_path)


def test_a_name_that_is_too_long_is_a_wrong_path() -> None:
    long = Path("n" * 300)
    for use in (lambda: destination(long, ".onnx"), lambda: refuse_overwrite(Path("out"), [long])):
        with pytest.raises(UsageError, match="the path cannot be used"):
            use()


def test_a_folder_below_the_sign_of_home_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="~ is no folder here"):
        write_text(Path("~/results/a.json"), "{}")
    with pytest.raises(UsageError, match="~ is no folder here"):
        refuse_overwrite(Path("~/a.json"), [])
    assert not list(tmp_path.iterdir())


def test_a_directory_in_the_way_is_refused_and_the_other_files_stay_old(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old a")
    (tmp_path / "b").mkdir()
    with pytest.raises(ConverterError, match="cannot write"):
        put(tmp_path, a="new a", b="new b")
    assert (tmp_path / "a").read_text() == "old a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_replacing_a_file_never_leaves_it_half_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    reader = (tmp_path / "a").open()
    put(tmp_path, a="new and longer")
    with reader:
        assert reader.read() == "old"  # the old file lives on for who has it open: it was replaced, not written over
    assert (tmp_path / "a").read_text() == "new and longer"


def test_missing_folders_are_made_and_removed_again_on_failure(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), transaction(tmp_path / "x" / "y") as files:
        assert files.work.exists()
        raise ValueError("stop")
    assert contents(tmp_path) == {}
    put(tmp_path / "x" / "y", a="new")
    assert contents(tmp_path / "x" / "y") == {"a": "new"}


def test_folders_that_were_there_stay(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    with pytest.raises(ValueError, match="stop"), transaction(folder / "made"):
        raise ValueError("stop")
    assert folder.is_dir()
    assert not (folder / "made").exists()


def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConverterError, match="cannot write"), transaction(tmp_path / "file" / "folder"):
        pass
    with pytest.raises(ConverterError, match="a file stands where a folder should be"), transaction(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    ("output", "suffix", "expected"),
    [
        ("out", ".onnx", "out.onnx"),
        ("out.onnx", ".onnx", "out.onnx"),
        ("out.v2", ".onnx", "out.v2.onnx"),
        ("out.onnx", ".ms", "out.onnx.ms"),
        ("deep/out", ".nb", "deep/out.nb"),
    ],
)
def test_the_suffix_is_appended_unless_it_is_there(output: str, suffix: str, expected: str) -> None:
    assert destination(Path(output), suffix) == Path(expected)


def test_a_folder_is_no_output_file(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/"), Path()):
        with pytest.raises(UsageError, match="names a directory"):
            destination(path, ".onnx")


def test_a_folder_with_the_name_of_a_result_but_its_suffix_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    found = destinations(tmp_path / "out.onnx", [".onnx", ".ms"])
    assert found == [tmp_path / "out.onnx", tmp_path / "out.ms"]
    with pytest.raises(UsageError, match="names a directory"):
        destinations(tmp_path / "out", [".onnx"])


def test_a_reader_of_the_messages_that_has_gone_is_no_trouble_with_the_disk(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), transaction(tmp_path):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    assert contents(tmp_path) == {}


def test_a_result_never_takes_the_place_of_a_device_or_an_open_stream(tmp_path: Path) -> None:
    """As the superuser ``--json=/dev/null`` would leave a file in place of the device."""
    pipe, stream = tmp_path / "pipe", tmp_path / "stdout"
    os.mkfifo(pipe)
    stream.symlink_to("/proc/self/fd/1")
    for path in (pipe, stream):
        with pytest.raises(UsageError, match="cannot be a device"):
            refuse_overwrite(path, [])
        with pytest.raises(ConverterError, match="cannot be a device"):
            write_text(path, "text")
    assert not may_replace(pipe)
    assert (pipe.is_fifo(), stream.is_symlink()) == (True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "stdout"]


def test_an_input_is_never_overwritten_whatever_its_path_looks_like(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.onnx").symlink_to(model)
    for same in (model, tmp_path / "sub" / ".." / "m.onnx", tmp_path / "link.onnx"):
        with pytest.raises(UsageError, match="overwrite an input"):
            refuse_overwrite(same, [tmp_path / "absent.cfg", model])
    refuse_overwrite(tmp_path / "other.onnx", [model])


def test_text_is_written_with_plain_line_ends_and_its_folder(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "plan.json", "a\nä\n")
    assert (tmp_path / "new" / "plan.json").read_bytes() == "a\nä\n".encode()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["plan.json"]
