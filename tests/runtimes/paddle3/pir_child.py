"""Runs inside an environment of Paddle 3: every ``.pdmodel`` file of a folder as a PIR program, ``.json`` beside it.

usage: python pir_child.py FOLDER
FOLDER/errors.json says which files Paddle does not translate, and why.
"""

import json
import sys
from pathlib import Path

import paddle
from paddle.base import core, framework

paddle.enable_static()
errors = {}
for path in sorted(Path(sys.argv[1]).glob("*.pdmodel")):
    try:
        program = framework.Program.parse_from_string(path.read_bytes())
        translated = paddle.pir.translate_to_pir(program.desc)
        core.serialize_pir_program(translated, str(path.with_suffix(".json")), True, False, True)
    except Exception as error:  # noqa: BLE001  Paddle raises many kinds; the parent reports them
        errors[path.stem] = " ".join(str(error).split())[-300:]
Path(sys.argv[1], "errors.json").write_text(json.dumps(errors))
