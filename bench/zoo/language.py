"""Language models of transformers, with few and narrow layers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import transformers as tf
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from bench.zoo.network import Form, Input, Network

WORDS, WIDTH, HEADS, LAYERS = 400, 64, 4, 2
SHARED = {"attn_implementation": "eager"}
ENCODER = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": 64,
    **SHARED,
}
T5 = tf.T5Config(
    vocab_size=WORDS,
    d_model=WIDTH,
    d_kv=16,
    d_ff=128,
    num_layers=LAYERS,
    num_decoder_layers=LAYERS,
    num_heads=HEADS,
    **SHARED,
)
LLAMA = tf.LlamaConfig(**{**ENCODER, "num_key_value_heads": 2, "use_cache": False})


class Reading(nn.Module):
    """A network of transformers that reads tokens: its first result alone."""

    def __init__(self, network: nn.Module, **options: Any) -> None:
        super().__init__()
        self.network, self.options = network, options

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.network(input_ids, attention_mask=attention_mask, return_dict=False, **self.options)[0]


class T5Decoder(nn.Module):
    """The decoder of T5, beside what its encoder gave."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tf.T5ForConditionalGeneration(T5)

    def forward(self, input_ids: Tensor, encoded: Tensor) -> Tensor:
        return self.network(decoder_input_ids=input_ids, encoder_outputs=(encoded,), use_cache=False).logits


class CachedLlama(nn.Module):
    """One step of a decoder whose keys and values come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tf.LlamaForCausalLM(LLAMA)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        cache = DynamicCache()
        for layer in range(LAYERS):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        start = past[0].shape[2]
        positions = torch.arange(start, start + input_ids.shape[1])[None]
        found = self.network(
            input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True, position_ids=positions
        )
        kept = found.past_key_values
        return (found.logits, *(part for layer in kept.layers for part in (layer.keys, layer.values)))


def tokens(length: int = 16, *, opened: bool = True, masked: bool = True, batch: int = 1) -> dict[str, Input]:
    """Token numbers, and a mask beside them."""
    axes = {0: "batch", 1: "length"} if opened else {}
    found = {"input_ids": Input((batch, length), "tokens", WORDS, axes)}
    return {**found, "attention_mask": Input((batch, length), "mask", open=axes)} if masked else found


PAST = Input((1, 2, 8, WIDTH // HEADS), open={0: "batch", 2: "past"})
CACHED = {
    "input_ids": Input((1, 1), "tokens", WORDS, {0: "batch"}),
    "attention_mask": Input((1, 9), "ones", open={0: "batch", 1: "total"}),
    **{f"past_{layer}_{part}": PAST for layer in range(LAYERS) for part in ("key", "value")},
}


def _encoder(model: str, **options: Any) -> partial[nn.Module]:
    return partial(_make, model, {**ENCODER, **options})


def _make(model: str, options: dict[str, Any]) -> nn.Module:
    return Reading(getattr(tf, f"{model}Model")(getattr(tf, f"{model}Config")(**options)))


DISTIL = {"vocab_size": WORDS, "dim": WIDTH, "n_heads": HEADS, "n_layers": LAYERS, "hidden_dim": 2 * WIDTH}
GPT = {"vocab_size": WORDS, "n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS, "n_positions": 64, "use_cache": False}

LANGUAGE = (
    Network("bert", _encoder("Bert"), tokens(), Form(17)),
    Network("bert_fixed", _encoder("Bert"), tokens(opened=False), Form(18, dynamo=True)),
    Network("bert_half", _encoder("Bert"), tokens(opened=False), Form(17, half=True)),
    Network("distilbert", partial(_make, "DistilBert", {**DISTIL, **SHARED}), tokens(), Form(14)),
    Network("roberta", _encoder("Roberta", pad_token_id=1), tokens(), Form(16)),
    Network("electra", _encoder("Electra", embedding_size=32), tokens(opened=False), Form(13)),
    Network("gpt2", lambda: Reading(tf.GPT2LMHeadModel(tf.GPT2Config(**GPT, **SHARED))), tokens(), Form(17)),
    Network("llama", lambda: Reading(tf.LlamaForCausalLM(LLAMA)), tokens(), Form(17, external=True)),
    Network("llama_cache", CachedLlama, CACHED, Form(17)),
    Network("t5_encoder", lambda: Reading(tf.T5EncoderModel(T5)), tokens(), Form(17)),
    Network(
        "t5_decoder",
        T5Decoder,
        {
            **tokens(8, masked=False),
            "encoded": Input((1, 16, WIDTH), open={0: "batch", 1: "source"}),
        },
        Form(17),
    ),
)
