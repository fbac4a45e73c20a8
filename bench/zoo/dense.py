"""Networks that answer for every place of a picture: segmentation, detection, generators."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as f
import torchvision
from torch import Tensor, nn
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from bench.zoo.network import Form, Input, Network, picture


class Segmenting(nn.Module):
    """A segmentation network of torchvision: its ``out`` alone."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.network = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21)

    def forward(self, image: Tensor) -> Tensor:
        return self.network(image)["out"]


class SegFormer(nn.Module):
    """A small SegFormer of transformers."""

    def __init__(self) -> None:
        super().__init__()
        sizes = SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 64, 128], decoder_hidden_size=64)
        self.network = SegformerForSemanticSegmentation(sizes)

    def forward(self, image: Tensor) -> Tensor:
        return self.network(pixel_values=image).logits


class Block(nn.Sequential):
    """Convolution, batch normalization, SiLU or another activation."""

    def __init__(self, inside: int, outside: int, size: int = 3, *, stride: int = 1, activation: str = "SiLU") -> None:
        convolution = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(outside), getattr(nn, activation)())


class UNet(nn.Module):
    """Three levels, transposed convolutions, joined ends."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64)
        self.down = nn.ModuleList(
            nn.Sequential(Block(a, b, activation="ReLU"), Block(b, b, activation="ReLU"))
            for a, b in zip((3, *widths), widths, strict=False)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in itertools.pairwise(widths))
        self.join = nn.ModuleList(Block(2 * a, a, activation="ReLU") for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 4, 1)

    def forward(self, image: Tensor) -> Tensor:
        kept = []
        for level, block in enumerate(self.down):
            image = block(image if not level else f.max_pool2d(image, 2))
            kept.append(image)
        for up, join, beside in zip(reversed(self.up), reversed(self.join), reversed(kept[:-1]), strict=True):
            image = join(torch.cat([beside, up(image)], 1))
        return self.head(image)


class Csp(nn.Module):
    """A part of the channels through a residual pair, joined with the rest."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = Block(width, width, 1)
        self.pair = nn.Sequential(Block(width // 2, width // 2), Block(width // 2, width // 2))
        self.last = Block(width + width // 2, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.first(x).chunk(2, 1)
        return self.last(torch.cat([a, b, b + self.pair(b)], 1))


class Pyramid(nn.Module):
    """The body of a YOLO: features at strides 8, 16 and 32, joined upwards."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        w = [width * 2**i for i in range(5)]
        self.start = nn.Sequential(Block(3, w[0], 6 - 1, stride=2), Block(w[0], w[1], stride=2), Csp(w[1]))
        self.stages = nn.ModuleList(nn.Sequential(Block(a, b, stride=2), Csp(b)) for a, b in itertools.pairwise(w[1:]))
        self.reduce = nn.Conv2d(4 * w[4], w[4], 1)
        self.narrow = nn.ModuleList(Block(a + b, b, 1) for a, b in ((w[4], w[3]), (w[3], w[2])))
        self.widths = (w[2], w[3], w[4])

    def forward(self, image: Tensor) -> list[Tensor]:
        x, features = self.start(image), []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        pooled = [x]
        for _ in range(3):
            pooled.append(f.max_pool2d(pooled[-1], 5, 1, 2))
        features[-1] = self.reduce(torch.cat(pooled, 1))
        for level, block in zip((1, 0), self.narrow, strict=True):
            above = f.interpolate(features[level + 1], scale_factor=2.0, mode="nearest")
            features[level] = block(torch.cat([above, features[level]], 1))
        return features


def _places(feature: Tensor) -> Tensor:
    rows, columns = feature.shape[-2:]
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([x, y], -1).to(feature.dtype)


class Yolo5(nn.Module):
    """Three anchors a place, decoded as YOLOv5 does."""

    def __init__(self, classes: int = 8) -> None:
        super().__init__()
        self.body, self.numbers = Pyramid(), classes + 5
        self.heads = nn.ModuleList(nn.Conv2d(width, 3 * self.numbers, 1) for width in self.body.widths)
        self.register_buffer("anchors", torch.tensor([[10.0, 13], [16, 30], [33, 23]])[None, :, None, None])

    def forward(self, image: Tensor) -> Tensor:
        found = []
        for level, (head, feature) in enumerate(zip(self.heads, self.body(image), strict=True)):
            batch, _, rows, columns = feature.shape
            y = head(feature).view(batch, 3, self.numbers, rows, columns).permute(0, 1, 3, 4, 2).sigmoid()
            place = (y[..., :2] * 2 - 0.5 + _places(feature)) * (8 * 2**level)
            size = (y[..., 2:4] * 2) ** 2 * self.anchors * 2**level
            found.append(torch.cat([place, size, y[..., 4:]], -1).flatten(1, 3))
        return torch.cat(found, 1)


class Yolo8(nn.Module):
    """Without anchors; distances as expectations, as YOLOv8 has them."""

    def __init__(self, classes: int = 8, bins: int = 16) -> None:
        super().__init__()
        self.body, self.bins, self.classes = Pyramid(), bins, classes
        widths = self.body.widths
        self.boxes = nn.ModuleList(nn.Sequential(Block(w, 64), nn.Conv2d(64, 4 * bins, 1)) for w in widths)
        self.scores = nn.ModuleList(nn.Sequential(Block(w, 32), nn.Conv2d(32, classes, 1)) for w in widths)
        self.expected = nn.Conv2d(bins, 1, 1, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        features = self.body(image)
        rows = [
            torch.cat([box(x), score(x)], 1).flatten(2)
            for box, score, x in zip(self.boxes, self.scores, features, strict=True)
        ]
        boxes, scores = torch.cat(rows, 2).split((4 * self.bins, self.classes), 1)
        distances = boxes.view(boxes.shape[0], 4, self.bins, -1).transpose(2, 1).softmax(1)
        low, high = self.expected(distances).flatten(1, 2).chunk(2, 1)
        places = torch.cat([_places(x).flatten(0, 1).T + 0.5 for x in features], 1)[None]
        corners = (places - low, places + high)
        boxes = torch.cat([(corners[0] + corners[1]) / 2, corners[1] - corners[0]], 1)
        return torch.cat([boxes, scores.sigmoid()], 1)


class SsdLite(nn.Module):
    """torchvision's SSDLite, with its non-maximum suppression."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torchvision.models.detection.ssdlite320_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=5, topk_candidates=50, detections_per_img=20
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found, *_ = self.network(list(image))
        return found["boxes"], found["scores"], found["labels"]


class Dcgan(nn.Sequential):
    """A picture from a code, by transposed convolutions."""

    def __init__(self) -> None:
        widths = (100, 128, 64, 32)
        layers: list[nn.Module] = []
        for index, (a, b) in enumerate(itertools.pairwise(widths)):
            layers += [nn.ConvTranspose2d(a, b, 4, 2 if index else 1, 1 if index else 0, bias=False)]
            layers += [nn.BatchNorm2d(b), nn.ReLU()]
        super().__init__(*layers, nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1), nn.Tanh())


class Residual(nn.Module):
    """A residual block of a generator."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.first, self.second = _padded(width, width, 3, 1, groups), _padded(width, width, 3, 1, groups)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(f.relu(self.first(x)))


def _padded(inside: int, outside: int, size: int, stride: int, groups: int) -> nn.Sequential:
    norm = nn.GroupNorm(groups, outside) if groups else nn.InstanceNorm2d(outside, affine=True)
    return nn.Sequential(nn.ReflectionPad2d(size // 2), nn.Conv2d(inside, outside, size, stride), norm)


class Generator(nn.Sequential):
    """Style transfer: InstanceNorm, or GroupNorm where ``groups`` is not 0; nearest upsampling, reflected edges."""

    def __init__(self, groups: int) -> None:
        up = [nn.Upsample(scale_factor=2, mode="nearest"), _padded(32, 16, 3, 1, groups), nn.ReLU()]
        super().__init__(
            _padded(3, 16, 9, 1, groups),
            nn.ReLU(),
            _padded(16, 32, 3, 2, groups),
            nn.ReLU(),
            Residual(32, groups),
            Residual(32, groups),
            *up,
            nn.Conv2d(16, 3, 9, padding=4),
        )


SEGMENTATION = (
    Network("deeplabv3", lambda: Segmenting("deeplabv3_mobilenet_v3_large"), picture(opened="batch"), Form(17)),
    Network("lraspp", lambda: Segmenting("lraspp_mobilenet_v3_large"), picture(opened="all"), Form(13)),
    Network("unet", UNet, picture(opened="all"), Form(11)),
    Network("segformer", SegFormer, picture(opened="batch"), Form(17)),
)

DETECTION = (
    Network("ssdlite_nms", SsdLite, picture(160), Form(17)),
    Network("yolo_v5", Yolo5, picture(128, opened="batch"), Form(12)),
    Network("yolo_v8", Yolo8, picture(128), Form(18, dynamo=True)),
)

GENERATORS = (
    Network("dcgan", Dcgan, {"code": Input((1, 100, 1, 1), open={0: "batch"})}, Form(13)),
    Network("generator_instance", lambda: Generator(0), picture(64, opened="all"), Form(17)),
    Network("generator_group", lambda: Generator(4), picture(64), Form(21, dynamo=True)),
)
