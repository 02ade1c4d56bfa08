"""The recorded functions of ggml, with the versions that have them.

C functions have kept their names and arguments: read in ggml-backend.h, ggml-cpu.h and ggml-cuda.cu of 2024 to 2026.
Functions of the CUDA backend are C++: the mangled name has the types of the arguments, so a function whose arguments
have changed is not attached to, instead of being read wrongly. Their names were read in the CUDA builds of
node-llama-cpp, of llama.cpp b3347 (July 2024), b3889, b4234, b4529, b4753, b4980, b5590, b5640, b6122, b6673, b8095,
b8390, b10361 and 0.5.0 (2026). Older ones pass no `ggml_backend_cuda_context`, and are not recorded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scope_bpf.catalogue.place import Place, Symbol

# Arguments: `enum ggml_function` in ggml.h.
_CALLS = {
    "GGML_GRAPH_COMPUTE": ("ggml_graph_compute",),
    "GGML_BACKEND_GRAPH_COMPUTE": ("ggml_backend_graph_compute",),
    "GGML_BACKEND_GRAPH_COMPUTE_ASYNC": ("ggml_backend_graph_compute_async",),
    "GGML_BACKEND_SCHED_GRAPH_COMPUTE": ("ggml_backend_sched_graph_compute",),
    "GGML_BACKEND_SCHED_GRAPH_COMPUTE_ASYNC": ("ggml_backend_sched_graph_compute_async",),
    "GGML_ALIGNED_MALLOC": ("ggml_aligned_malloc",),
    # Of virtual memory, and of devices without. They throw no exceptions: errors abort the program.
    "GGML_CUDA_POOL_ALLOC": ("_ZN18ggml_cuda_pool_vmm5allocEmPm", "_ZN18ggml_cuda_pool_leg5allocEmPm"),
}
_FREES = {
    "GGML_ALIGNED_FREE": ("ggml_aligned_free",),
    "GGML_CUDA_POOL_FREE": ("_ZN18ggml_cuda_pool_vmm4freeEPvm", "_ZN18ggml_cuda_pool_leg4freeEPvm"),
}

_CONTEXT, _NONE = "R25ggml_backend_cuda_context", -1
_THREE = f"{_CONTEXT}PK11ggml_tensorS3_PS1_"  # (context, first, second, destination)
_IDS = f"{_CONTEXT}PK11ggml_tensorS3_S3_PS1_"  # (context, first, second, ids, destination)
_FUSED = f"{_IDS}PK29ggml_cuda_mm_fusion_args_host"
_ROWS = f"{_THREE}PKcPKfS6_PfllllP11CUstream_st"  # and a part of the rows, on a stream


@dataclass(frozen=True)
class CudaFunction:
    """A function of the CUDA backend.

    Attributes:
        function: the enumerator of `enum ggml_function`.
        symbol: the mangled name.
        destination: number of the argument with the tensor of the result; below 0: none.
        versions: the first and the last of the builds above that have it; the newest is 0.5.0.
    """

    function: str
    symbol: str
    destination: int
    versions: tuple[str, str]


CUDA_FUNCTIONS = (
    CudaFunction("GGML_CUDA_MUL_MAT_VEC_Q", f"_Z23ggml_cuda_mul_mat_vec_q{_IDS}", 4, ("b5590", "b6673")),
    CudaFunction("GGML_CUDA_MUL_MAT_VEC_Q", f"_Z23ggml_cuda_mul_mat_vec_q{_FUSED}", 4, ("b8095", "0.5.0")),
    CudaFunction("GGML_CUDA_MUL_MAT_VEC_F", f"_Z23ggml_cuda_mul_mat_vec_f{_IDS}", 4, ("b6122", "b6673")),
    CudaFunction("GGML_CUDA_MUL_MAT_VEC_F", f"_Z23ggml_cuda_mul_mat_vec_f{_FUSED}", 4, ("b8095", "0.5.0")),
    CudaFunction("GGML_CUDA_MUL_MAT_VEC", f"_Z21ggml_cuda_mul_mat_vec{_THREE}", 3, ("b4234", "b4980")),
    CudaFunction("GGML_CUDA_MUL_MAT_VEC", f"_Z21ggml_cuda_mul_mat_vec{_IDS}", 4, ("b5590", "b5640")),
    CudaFunction("GGML_CUDA_MUL_MAT_Q", f"_Z19ggml_cuda_mul_mat_q{_IDS}", 4, ("b5590", "0.5.0")),
    CudaFunction("GGML_CUDA_MUL_MAT_F", f"_Z19ggml_cuda_mul_mat_f{_IDS}", 4, ("b6122", "0.5.0")),
    CudaFunction("GGML_CUDA_MUL_MAT_CUBLAS", f"_ZL24ggml_cuda_mul_mat_cublas{_THREE}", 3, ("b10361", "0.5.0")),
    CudaFunction(
        "GGML_CUDA_MUL_MAT_BATCHED_CUBLAS", f"_ZL32ggml_cuda_mul_mat_batched_cublas{_THREE}", 3, ("b3347", "b5640")
    ),
    CudaFunction("GGML_CUDA_OP_MUL_MAT_VEC_Q", f"_Z26ggml_cuda_op_mul_mat_vec_q{_ROWS}", 3, ("b3347", "0.5.0")),
    CudaFunction("GGML_CUDA_OP_MUL_MAT_VEC_F", f"_Z26ggml_cuda_op_mul_mat_vec_f{_ROWS}", 3, ("b6122", "0.5.0")),
    CudaFunction("GGML_CUDA_OP_MUL_MAT_VEC", f"_Z24ggml_cuda_op_mul_mat_vec{_ROWS}", 3, ("b4234", "b5640")),
    CudaFunction("GGML_CUDA_OP_MUL_MAT_Q", f"_Z22ggml_cuda_op_mul_mat_q{_ROWS}", 3, ("b3347", "b8390")),
    CudaFunction("GGML_CUDA_OP_MUL_MAT_CUBLAS", f"_ZL27ggml_cuda_op_mul_mat_cublas{_ROWS}", 3, ("b3347", "b8390")),
    CudaFunction(
        "GGML_CUDA_OP_DEQUANTIZE_MUL_MAT_VEC",
        f"_Z35ggml_cuda_op_dequantize_mul_mat_vec{_ROWS}",
        3,
        ("b3347", "b3889"),
    ),
    CudaFunction(
        "GGML_CUDA_FLASH_ATTN_EXT", f"_Z24ggml_cuda_flash_attn_ext{_CONTEXT}P11ggml_tensor", 1, ("b3347", "0.5.0")
    ),
    CudaFunction("GGML_CUDA_CPY", f"_Z13ggml_cuda_cpy{_CONTEXT}PK11ggml_tensorPS1_", 2, ("b3347", "0.5.0")),
    CudaFunction("GGML_CUDA_CPY", f"_Z13ggml_cuda_cpy{_CONTEXT}PK11ggml_tensorPS1_b", 2, ("b5590", "b6673")),
    CudaFunction("GGML_CUDA_SET_DEVICE", "_Z20ggml_cuda_set_devicei", _NONE, ("b3347", "0.5.0")),
)

OPERATIONS = tuple(function.symbol for function in CUDA_FUNCTIONS if function.destination != _NONE)

_LAUNCHES = (
    ("cudaGraphLaunch", "cudaGraphLaunch_ptsz"),
    ("cuGraphLaunch", "cuGraphLaunch_ptsz"),
)  # one calls the other


def places(_: Mapping[str, Any]) -> tuple[Place, ...]:
    """The places of the probe."""
    return tuple(_places())


def _places() -> Iterator[Place]:
    for function, names in _CALLS.items():
        yield Place(Symbol(names), "ggml_enter", "ggml_return", {"function": function})
    for function, names in _FREES.items():
        yield Place(Symbol(names), "ggml_free", keep={"function": function})
    for one in CUDA_FUNCTIONS:
        keep = {"function": one.function, "destination": one.destination}
        yield Place(Symbol((one.symbol,)), "ggml_enter", "ggml_return", keep)
    for names in _LAUNCHES:
        keep = {"function": "GGML_CUDA_GRAPH_LAUNCH", "destination": _NONE}
        yield Place(Symbol(names), "ggml_launch", "ggml_return", keep)
