"""Networks that read sounds and series, recurrent ones among them, and those of tables and graphs."""

from __future__ import annotations

import torch
import torch.nn.functional as f
from torch import Tensor, nn
from transformers import Wav2Vec2Config, Wav2Vec2Model, WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from bench.zoo.network import Form, Input, Network


class Recurrent(nn.Module):
    """Two layers of a kind, and a dense layer behind them."""

    def __init__(self, kind: type[nn.RNNBase], *, both_ways: bool) -> None:
        super().__init__()
        self.layers = kind(40, 64, 2, batch_first=True, bidirectional=both_ways)
        self.head = nn.Linear(128 if both_ways else 64, 12)

    def forward(self, series: Tensor) -> Tensor:
        return self.head(self.layers(series)[0])


class Streaming(nn.Module):
    """An LSTM whose states come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(40, 64, batch_first=True)
        self.head = nn.Linear(64, 12)

    def forward(self, series: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found, (hidden, cell) = self.layers(series, (hidden, cell))
        return self.head(found), hidden, cell


class Tcn(nn.Module):
    """Dilated causal convolutions with residuals."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.start = nn.Conv1d(20, width, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=2**i) for i in range(4))
        self.head = nn.Conv1d(width, 6, 1)

    def forward(self, series: Tensor) -> Tensor:
        x = self.start(series)
        for index, layer in enumerate(self.layers):
            x = x + torch.relu(layer(f.pad(x, (2 * 2**index, 0))))
        return self.head(x)


class Wave(nn.Module):
    """A small wav2vec 2.0."""

    def __init__(self) -> None:
        super().__init__()
        sizes = Wav2Vec2Config(
            hidden_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=192,
            conv_dim=(64,) * 7,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            attn_implementation="eager",
        )
        self.network = Wav2Vec2Model(sizes)

    def forward(self, wave: Tensor) -> Tensor:
        return self.network(wave).last_hidden_state


class Whisper(nn.Module):
    """A small encoder of Whisper."""

    def __init__(self) -> None:
        super().__init__()
        sizes = WhisperConfig(
            d_model=96,
            encoder_layers=2,
            encoder_attention_heads=4,
            encoder_ffn_dim=192,
            max_source_positions=100,
            attn_implementation="eager",
        )
        self.network = WhisperEncoder(sizes)

    def forward(self, features: Tensor) -> Tensor:
        return self.network(features).last_hidden_state


class Keywords(nn.Sequential):
    """Depthwise separable convolutions over a spectrogram."""

    def __init__(self, width: int = 48) -> None:
        layers: list[nn.Module] = [nn.Conv2d(1, width, (10, 4), 2, (5, 1)), nn.BatchNorm2d(width), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.Conv2d(width, width, 1), nn.BatchNorm2d(width), nn.ReLU()]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 12))


class Dlrm(nn.Module):
    """Embeddings, dense layers, and the products of all pairs."""

    def __init__(self, tables: int = 6, width: int = 16) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(500, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
        rows, columns = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("flat", rows * (tables + 1) + columns)

    def forward(self, dense: Tensor, kinds: Tensor) -> Tensor:
        x = self.bottom(dense)
        parts = [x, *(table(kinds[:, i]) for i, table in enumerate(self.embeddings))]
        stacked = torch.stack(parts, 1)
        products = (stacked @ stacked.transpose(1, 2)).flatten(1).index_select(1, self.flat)
        return self.top(torch.cat([x, products], 1))


class Gnn(nn.Module):
    """Messages along edges, summed at their ends."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.start, self.head = nn.Linear(16, width), nn.Linear(width, 4)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        x = torch.relu(self.start(nodes))
        source, target = edges[0], edges[1]
        for layer in self.messages:
            sent = torch.relu(layer(torch.cat([x[source], x[target]], 1)))
            x = x + torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(sent), sent)
        return self.head(x)


class TableNet(nn.Sequential):
    """Dense layers over a table's columns."""

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        for inside, outside in ((30, 128), (128, 128), (128, 64)):
            layers += [nn.Linear(inside, outside), nn.BatchNorm1d(outside), nn.ELU()]
        super().__init__(*layers, nn.Linear(64, 3), nn.Softmax(-1))


SERIES = {"series": Input((1, 50, 40), "wave", open={0: "batch", 1: "time"})}
FIXED = {"series": Input((1, 50, 40), "wave")}
STATE = Input((1, 1, 64), "zeros")

SOUND = (
    Network("lstm", lambda: Recurrent(nn.LSTM, both_ways=False), FIXED, Form(14)),
    Network("lstm_both", lambda: Recurrent(nn.LSTM, both_ways=True), SERIES, Form(17)),
    Network("gru", lambda: Recurrent(nn.GRU, both_ways=False), SERIES, Form(13)),
    Network("gru_both", lambda: Recurrent(nn.GRU, both_ways=True), FIXED, Form(18, dynamo=True)),
    Network("rnn_both", lambda: Recurrent(nn.RNN, both_ways=True), FIXED, Form(17)),
    Network("lstm_states", Streaming, {"series": Input((1, 8, 40), "wave"), "hidden": STATE, "cell": STATE}, Form(17)),
    Network("tcn", Tcn, {"series": Input((1, 20, 64), "wave", open={0: "batch", 2: "time"})}, Form(17)),
    Network("wav2vec2", Wave, {"wave": Input((1, 4000), "wave")}, Form(17)),
    Network("whisper_encoder", Whisper, {"features": Input((1, 80, 200), "wave", open={0: "batch"})}, Form(17)),
    Network("keywords", Keywords, {"spectrum": Input((1, 1, 49, 10), "picture")}, Form(12)),
)

TABLES = (
    Network(
        "dlrm",
        Dlrm,
        {
            "dense": Input((8, 13), open={0: "batch"}),
            "kinds": Input((8, 6), "tokens", 500, {0: "batch"}),
        },
        Form(17),
    ),
    Network(
        "gnn",
        Gnn,
        {
            "nodes": Input((20, 16), open={0: "nodes"}),
            "edges": Input((2, 60), "tokens", 20, {1: "edges"}),
        },
        Form(17),
    ),
    Network("table", TableNet, {"columns": Input((4, 30), open={0: "batch"})}, Form(19, dynamo=True)),
)
