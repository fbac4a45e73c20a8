"""Converts an ONNX file with the released converter: ``ms_convert.py MODEL OUT CONFIG|- [name:1,3,224,224]``."""

import sys

import mindspore_lite as mslite

model, out, config = sys.argv[1:4]
converter = mslite.Converter()
converter.save_type = mslite.ModelType.MINDIR_LITE
converter.optimize = "general"
if len(sys.argv) > 4:
    name, shape = sys.argv[4].rsplit(":", 1)
    converter.input_shape = {name: [int(size) for size in shape.split(",")]}
converter.convert(mslite.FmkType.ONNX, model, out, config_file="" if config == "-" else config)
