from pathlib import Path

import pytest

from tests.cli.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A working directory with a model and data."""
    monkeypatch.chdir(tmp_path)
    return Workshop(tmp_path)
