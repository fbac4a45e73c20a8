from pathlib import Path

import pytest


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample folder, importable from the way that its scripts see it."""
    folder = Path(__file__).parents[2] / "samples"
    monkeypatch.syspath_prepend(str(folder))
    return folder
