"""Trains the sample network on pictures that it draws, and writes `shapes.onnx` beside this file.

Needs PyTorch, NumPy, Pillow and onnx; takes a few minutes on two cores. Using the sample needs none of this.
"""

import argparse
import io
import time
from pathlib import Path

import drawing
import numpy as np
import onnx
import torch
from network import ShapeNet, to_onnx
from torch import nn

TRAIN_COUNT = 8000
EPOCHS = 22
BATCH = 100
PEAK_LEARNING_RATE = 0.01
WEIGHT_DECAY = 0.02
SEED = 0


def load_split(split: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pixels `(count, 3, SIZE, SIZE)` uint8 as they come out of JPEG files, and labels `(count,)`."""
    files = (drawing.encode_jpeg(drawing.draw(split, number)) for number in range(count))
    pixels = np.stack([drawing.decode(io.BytesIO(file)) for file in files])
    labels = [drawing.class_of(number) for number in range(count)]
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels)


def normalize(pixels: torch.Tensor) -> torch.Tensor:
    """Map 0..255 to -1..1; `full_quant.cfg` and `run_onnxruntime.py` say the same."""
    return (pixels.float() - 127.5) / 127.5


def train(net: ShapeNet, pixels: torch.Tensor, labels: torch.Tensor, epochs: int) -> None:
    """Train with AdamW under a one-cycle learning rate; each batch is turned and mirrored by chance."""
    steps = epochs * (len(labels) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LEARNING_RATE, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(epochs):
        net.train()
        started, total = time.perf_counter(), 0.0
        for chosen in torch.randperm(len(labels)).view(-1, BATCH):
            batch = torch.rot90(pixels[chosen], int(torch.randint(4, ())), (2, 3))
            batch = batch.flip(3) if torch.rand(()) < 0.5 else batch
            loss = loss_of(net(normalize(batch)), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        mean_loss = total / (len(labels) // BATCH)
        print(f"epoch {epoch + 1:2d}/{epochs}  loss {mean_loss:.4f}  {time.perf_counter() - started:.1f} s", flush=True)


def accuracy(net: ShapeNet, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of pictures that the network in evaluation mode names rightly."""
    net.eval()
    with torch.no_grad():
        return (net(normalize(pixels)).argmax(1) == labels).float().mean().item()


def main() -> None:
    """Train, report the accuracy and write the ONNX file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("shapes.onnx"))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    net = ShapeNet(len(drawing.CLASSES))
    train(net, *load_split("train", TRAIN_COUNT), arguments.epochs)
    print(f"top-1 on the test pictures: {accuracy(net, *load_split('test', drawing.TEST_COUNT)):.2%}")
    onnx.save(to_onnx(net, drawing.SIZE), arguments.output)
    print(f"wrote {arguments.output}: {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
