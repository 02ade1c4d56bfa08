"""The functions of llama.cpp that are recorded, by what they do, with the versions that have them.

Read in llama.h and llama-context.cpp of 2024 to 2026, and in the builds of node-llama-cpp 3.22, llama-cpp-cffi 0.4 and
xllamacpp 2026.10. Arguments are described at `enum llama_function` in bpf/probes/llama/llama.h.
"""

from collections.abc import Mapping
from typing import Any

from scope_bpf.catalogue.place import Place, Symbol

_CALLS = {
    "LLAMA_DECODE": ("llama_decode",),
    "LLAMA_ENCODE": ("llama_encode",),
    "LLAMA_PROCESS": ("llama_process",),  # since autumn 2026 beside llama_decode, which servers no longer call
    "LLAMA_SYNCHRONIZE": ("llama_synchronize",),
    "LLAMA_GET_LOGITS": ("llama_get_logits",),
    "LLAMA_GET_LOGITS_OF": ("llama_get_logits_ith",),  # llama_sampler_sample and common_sampler_sample call it
    "LLAMA_GET_TOKEN_OF": ("llama_get_sampled_token_ith",),  # since January 2026, for samplers on the GPU
    "LLAMA_MAKE": ("llama_batch_ext_init",),
    # Of the driver, which CUDA's runtime calls, too.
    "LLAMA_GPU_WAIT": ("cuStreamSynchronize", "cuStreamSynchronize_ptsz", "cuEventSynchronize", "cuCtxSynchronize"),
    "LLAMA_NEW": ("llama_init_from_model", "llama_new_context_with_model"),  # the older one calls the newer one
}
_BEGINS = {
    # process_ubatch(llama_ubatch const&, llm_graph_type, llama_memory_context_i*, ggml_status&), since June 2025
    "LLAMA_UBATCH": (
        "_ZN13llama_context14process_ubatchERK12llama_ubatch14llm_graph_typeP22llama_memory_context_iR11ggml_status",
    ),
    "LLAMA_CLEAR": ("llama_batch_ext_clear", "llama_batch_ext_free"),
    "LLAMA_ADD": ("llama_batch_ext_add_token", "llama_batch_ext_add_embd"),
    "LLAMA_WANT": ("llama_batch_ext_set_output_logits",),
    "LLAMA_SHIFT": ("llama_memory_seq_add", "llama_kv_self_seq_add", "llama_kv_cache_seq_add"),
    "LLAMA_FREE": ("llama_free",),
    "LLAMA_EMBEDDINGS": ("llama_get_embeddings", "llama_get_embeddings_ith", "llama_get_embeddings_seq"),
    "LLAMA_RESET": ("llama_memory_clear", "llama_kv_self_clear", "llama_kv_cache_clear"),
}


def places(_: Mapping[str, Any]) -> tuple[Place, ...]:
    """The places of the functions."""
    calls = (Place(Symbol(names), "llama_enter", "llama_return", {"function": kind}) for kind, names in _CALLS.items())
    begins = (Place(Symbol(names), "llama_enter", keep={"function": kind}) for kind, names in _BEGINS.items())
    return (*calls, *begins)
