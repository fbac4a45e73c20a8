"""Recurrent layers, written out step by step: the runtime's own LSTM and GRU infer wrong sizes."""

from __future__ import annotations

from converter_lite.formats.mindspore_ms.ops.common import Lower

TABLE: dict[str, Lower] = {}
