"""How reliably the preprocessing doctor finds seeded mistakes: ``python -m bench.preprocessing [--split=eval] [--draws=20]``.

Thresholds of the doctor are chosen on the calibration pictures (``--split=calib``); the figures of the documentation are those
of pictures that no threshold has seen (``--split=eval``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.data.images import ImagePreprocess, load_image
from converter_lite.data.inputs import input_specs
from converter_lite.formats.requirements import GraphRequirements
from converter_lite.passes.pipeline import ALL_REWRITES
from converter_lite.pipeline.prepare import Preparation as GraphPreparation
from converter_lite.pipeline.read import read_source
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.preprocessing.doctor import Mistake, Preparation, examine
from converter_lite.preprocessing.normalization import IMAGENET, PIXELS, SIGNED, UNIT, Normalization
from converter_lite.runtime.context import RunContext

ROOT = Path(__file__).resolve().parents[1]
SHARED = next((up / "shared" for up in ROOT.parents if (up / "shared/data/models").is_dir()), Path("absent"))
SAMPLES = 48
"""Pictures of one data set."""

Pictures = Sequence[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Case:
    """A model and what it was trained with."""

    name: str
    model: Path
    pictures: Callable[[str], Pictures]
    right: Normalization
    fmk: str = "ONNX"


def folder(calib: Path, evaluation: Path, **preprocess: object) -> Callable[[str], Pictures]:
    """Pictures of a folder as RGB, 0 to 255, ``(H, W, 3)``."""
    settings = ImagePreprocess(image_to_format="RGB", **preprocess)

    def read(split: str) -> Pictures:
        files = sorted((calib if split == "calib" else evaluation).glob("*.*"))
        step = max(len(files) // 150, 1)
        return [load_image(file, settings, planar=False) for file in files[::step]]

    return read


def cifar(split: str) -> Pictures:
    """Pictures of 32x32 pixels."""
    if split == "calib":
        return folder(SHARED / "data/cifar10_calib", Path())(split)
    images = np.load(SHARED / "data/cifar10_eval.npz")["images"]  # sorted by class
    return list(images[::5].astype(np.float32))


def cases() -> list[Case]:
    """Every model beside the checkout, and the sample."""
    data, linear = SHARED / "data", "LINEAR"
    imagenet = (data / "imagenet_calib", data / "imagenet_eval")
    crop = {"resize_width": 256, "resize_height": 256, "center_crop_width": 224, "center_crop_height": 224}
    classes = folder(*imagenet, resize_method=linear, **crop)
    faces = folder(*imagenet, resize_method=linear, resize_width=320, resize_height=240)
    shapes = folder(ROOT / "samples/calibration", ROOT / "samples/test")
    return [
        Case("mobilenet", data / "models/mobilenet_v1_0.75_224.onnx", classes, SIGNED),
        Case("paddle mobilenet", data / "models/paddle_mobilenet_v1_075/fp32", classes, SIGNED, "PADDLE"),
        Case("resnet8", data / "models/resnet8_cifar10.onnx", cifar, PIXELS),
        Case("ultraface", data / "models/ultraface_rfb_320.onnx", faces, SIGNED),
        Case("shapes", ROOT / "samples/shapes.onnx", shapes, SIGNED),
    ]


def graph(case: Case) -> ir.Model:
    """The optimized float graph, as a conversion has it."""
    request = ConvertRequest(model_file=case.model, output_file=Path("unused"), fmk=case.fmk)
    return GraphPreparation(read_source(request, static_shapes={}), ALL_REWRITES)(GraphRequirements()).model


def feeds(
    pictures: Pictures, name: str, used: Normalization, *, planar: bool, swapped: bool = False, turned: bool = False
) -> list[dict[str, NDArray[np.float32]]]:
    """Samples with a mistake: ``turned`` are NHWC bytes taken for NCHW, or the other way round."""
    mean, std = used.vectors(3, blue_first=False)
    made = []
    for picture in pictures:
        values = ((picture[..., ::-1] if swapped else picture) - mean) / std
        array = values.transpose(2, 0, 1) if planar else values
        if turned:
            array = np.ascontiguousarray(values if planar else values.transpose(2, 0, 1)).reshape(array.shape)
        made.append({name: np.ascontiguousarray(array[np.newaxis], np.float32)})
    return made


def seeded(case: Case) -> list[tuple[str, Mistake | None, dict[str, object]]]:
    """Label, what should be found, and how the samples are made."""
    right: dict[str, object] = {"used": case.right}
    wrong = [n for n in (PIXELS, UNIT, SIGNED, IMAGENET) if n is not case.right]
    return [
        ("right", None, right),
        ("swapped", Mistake.CHANNELS, {**right, "swapped": True}),
        ("layout", Mistake.LAYOUT, {**right, "turned": True}),
        *((f"as {n.name.split(chr(39))[0]}", Mistake.NORMALIZATION, {"used": n}) for n in wrong),
        ("equal", Mistake.EQUAL, right),
    ]


def measure(case: Case, split: str, draws: int, *, kind: str, pictures_known: bool) -> None:
    """Print how often each mistake is found, and what else is said."""
    model = graph(case)
    spec = input_specs(model)[0]
    planar = spec.shape[1] == 3
    pictures = case.pictures(split)
    rng = np.random.default_rng(0)
    for label, mistake, how in (row for row in seeded(case) if kind in row[0]):
        found = other = 0
        for _ in range(draws):
            chosen = [pictures[i] for i in rng.choice(len(pictures), min(SAMPLES, len(pictures)), replace=False)]
            samples = feeds(chosen, spec.name, planar=planar, **how)
            if mistake is Mistake.EQUAL:
                samples = samples[:1] * len(samples)
            is_known = pictures_known and "turned" not in how
            preparation = Preparation(True, how["used"], "RGB") if is_known else Preparation()
            kinds = {
                finding.mistake
                for finding in examine(
                    model, samples, preparation=preparation, samples=100, context=RunContext(threads=2)
                )
            }
            found += mistake in kinds
            other += bool(kinds - {mistake})
        print(f"{case.name:18} {label:12} found {found:3}/{draws}  else said {other:3}/{draws}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=("calib", "eval"), default="eval")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--only", default="", help="models whose name holds this")
    parser.add_argument("--kind", default="", help="mistakes whose name holds this; 'right' counts false alarms")
    parser.add_argument("--raw", action="store_true", help="as from BIN files: normalization and order are not known")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit("the models are not beside the checkout")
    for case in cases():
        if options.only in case.name:
            measure(case, options.split, options.draws, kind=options.kind, pictures_known=not options.raw)


if __name__ == "__main__":
    main()
