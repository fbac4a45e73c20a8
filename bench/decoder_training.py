"""Trains a small decoder on the text of Python's own help, with torch: ``python bench/decoder_training.py OUT.npz``.

Started by :mod:`bench.decoder` with an interpreter that has torch; writes weights, and the tokens that were kept apart.
"""

from __future__ import annotations

import sys
import time
from pydoc_data.topics import topics

import numpy as np
import torch
from torch import nn
from torch.nn import functional

LAYERS, WIDTH, HEADS, CONTEXT, TOKENS = 4, 192, 6, 128, 256
BATCH, RATE, WARM = 16, 3e-3, 0.05


class Layer(nn.Module):
    """Attention and a product of two layers, each behind a normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: ``(batch, positions, width)``."""
        batch, positions, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, positions, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, positions, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Shapes: ids ``(batch, positions)``."""
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main(path: str, seconds: float) -> None:
    """Train for some time and write the result."""
    torch.manual_seed(0)
    text = np.frombuffer("\n".join(topics[name] for name in sorted(topics)).encode(), np.uint8).astype(np.int64)
    kept = len(text) * 9 // 10
    model, data = Decoder(), torch.from_numpy(text[:kept].copy())
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1)
    start, step, share = time.monotonic(), 0, 0.0
    while share < 1:
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(share / WARM + 0.02, 1.02 - share, 1)
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,))
        batch = torch.stack([data[s : s + CONTEXT + 1] for s in starts])
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        spent, step = time.monotonic() - start, step + 1
        share = spent / seconds
        if step % 20 == 1:
            print(f"{step}: loss {loss.item():.3f}, {spent:.0f} s", flush=True)
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    np.savez(path, train=text[: kept - kept % CONTEXT], test=text[kept:], **weights)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
