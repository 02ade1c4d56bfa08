"""Writes a llama model of two layers with random weights: half a megabyte, its tokens are noise.

usage: python -m tests.llm.tiny_model FILE
"""

import sys
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, LAYERS, FEED_FORWARD, CONTEXT = 64, 4, 2, 128, 4096
SPECIAL = ("<unk>", "<s>", "</s>")
SEED = 20261123


def write(path: Path, seed: int = SEED) -> None:
    """Writes the model; another seed makes one that says other things."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny random llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_vocabulary(writer)
    _add_weights(writer, seed)
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


def _add_weights(writer: gguf.GGUFWriter, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    tokens = len(SPECIAL) + 256 + 29

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", (numbers.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    add("token_embd", tokens, WIDTH)
    add("output", tokens, WIDTH)
    add_norm("output_norm")
    for layer in range(LAYERS):
        add_norm(f"blk.{layer}.attn_norm")
        add_norm(f"blk.{layer}.ffn_norm")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}", WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_gate", FEED_FORWARD, WIDTH)
        add(f"blk.{layer}.ffn_up", FEED_FORWARD, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, FEED_FORWARD)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
