"""What ``--executor`` may name."""

from __future__ import annotations

from converter_lite.errors import UsageError, did_you_mean

LOCAL, DASK = "local", "dask"
KINDS = (LOCAL, DASK)
"""Values of ``--executor``; ``dask`` may have the address of a scheduler behind a colon."""


def check_executor(text: str) -> str:
    """The value of ``--executor`` if it is one.

    Raises:
        UsageError: It is not, or the address is empty.
    """
    kind, colon, address = text.partition(":")
    if kind not in KINDS or (kind == LOCAL and colon):
        near = did_you_mean(kind, KINDS)
        raise UsageError(f"{text!r} is not one of local, dask, dask:ADDRESS{near}", where="--executor")
    if colon and not address.strip():
        raise UsageError(
            "the address of the scheduler is empty",
            where=f"--executor={text}",
            hint="write dask:tcp://HOST:8786, or dask alone for workers on this machine",
        )
    return text
