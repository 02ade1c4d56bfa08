"""Writes a llama model with random weights, by default of two layers and half a megabyte; its tokens are noise.

usage: python -m tests.llm.tiny_model FILE
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

CONTEXT = 4096
SPECIAL = ("<unk>", "<s>", "</s>")
SEED = 20261123


@dataclass(frozen=True)
class Size:
    """The size of a model."""

    width: int = 64
    heads: int = 4
    layers: int = 2
    feed_forward: int = 128
    quantized: bool = False  # weights of 4 bits (Q4_0) instead of 32


def write(path: Path, seed: int = SEED, size: Size = Size()) -> None:  # it is frozen
    """Writes the model; another seed makes one that says other things."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny random llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(size.width)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.feed_forward)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.heads)
    writer.add_rope_dimension_count(size.width // size.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0 if size.quantized else gguf.LlamaFileType.ALL_F32)
    _add_vocabulary(writer)
    _add_weights(writer, seed, size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    """A token for each byte, and for each special word and some letters."""
    kinds = gguf.TokenType
    tokens = [(text, kinds.UNKNOWN if text == "<unk>" else kinds.CONTROL) for text in SPECIAL]
    tokens += [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    tokens += [(letter, kinds.NORMAL) for letter in "\u2581abcdefghijklmnopqrstuvwxyz.,"]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_vocab_size(len(tokens))


def _add_weights(writer: gguf.GGUFWriter, seed: int, size: Size) -> None:
    numbers = np.random.default_rng(seed)
    tokens = len(SPECIAL) + 256 + 29

    def add(name: str, *shape: int) -> None:
        weights = (numbers.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        if size.quantized:
            q4_0 = gguf.GGMLQuantizationType.Q4_0
            writer.add_tensor(f"{name}.weight", gguf.quants.quantize(weights, q4_0), raw_dtype=q4_0)
        else:
            writer.add_tensor(f"{name}.weight", weights)

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(size.width, np.float32))

    add("token_embd", tokens, size.width)
    add("output", tokens, size.width)
    add_norm("output_norm")
    for layer in range(size.layers):
        add_norm(f"blk.{layer}.attn_norm")
        add_norm(f"blk.{layer}.ffn_norm")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}", size.width, size.width)
        add(f"blk.{layer}.ffn_gate", size.feed_forward, size.width)
        add(f"blk.{layer}.ffn_up", size.feed_forward, size.width)
        add(f"blk.{layer}.ffn_down", size.width, size.feed_forward)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
