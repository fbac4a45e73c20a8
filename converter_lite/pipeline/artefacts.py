"""Proven files as artefacts of a result."""

from __future__ import annotations

from converter_lite.pipeline.prove import Proof, Proven
from converter_lite.pipeline.result import Artefact, ConvertResult
from converter_lite.system.files import Transaction, content_digest


def add_artefacts(proven: list[Proven], files: Transaction, result: ConvertResult, proof: Proof) -> None:
    """Register the proven files with their destinations."""
    for item in proven:
        for made in item.files:
            files.add(made, item.target.with_name(made.name))
        size = sum(made.stat().st_size for made in item.files)
        digest, gate = content_digest(*item.files), proof.limit(item.choice)
        result.artefacts.append(
            Artefact(
                item.format.name,
                item.target,
                size,
                digest,
                item.accuracy,
                proof.samples,
                proof.is_real,
                gate,
                sample_kind=proof.sample_kind,
                speed=item.speed,
                files=tuple(made.name for made in item.files),
            )
        )
