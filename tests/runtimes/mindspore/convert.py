"""Converts a MindIR file with the released converter: ``convert.py MODEL.mindir OUT``."""

import sys

import mindspore_lite as mslite

converter = mslite.Converter()
converter.save_type = mslite.ModelType.MINDIR_LITE
converter.optimize = "general"
converter.convert(mslite.FmkType.MINDIR, sys.argv[1], sys.argv[2])
