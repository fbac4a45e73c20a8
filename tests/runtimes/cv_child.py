"""Runs inside the environment of OpenCV: one Caffe network after the other.

usage: python cv_child.py MANIFEST
MANIFEST is a JSON list of {"text" (.prototxt), "weights" (.caffemodel), "feed" (npz), "output" (npz to write: y, what the last
layer gives), "error" (file for the reason why there is none)}.
"""

import json
import sys
from pathlib import Path

import cv2
import numpy as np


def run(case):
    net = cv2.dnn.readNetFromCaffe(case["text"], case["weights"])
    with np.load(case["feed"]) as arrays:
        for name in arrays.files:
            net.setInput(arrays[name], name)
    np.savez(case["output"], y=net.forward())


def main(manifest):
    for case in json.loads(manifest.read_text()):
        try:
            run(case)
        except cv2.error as error:
            Path(case["error"]).write_text(str(error))


main(Path(sys.argv[1]))
