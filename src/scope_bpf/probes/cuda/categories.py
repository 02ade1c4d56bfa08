"""What a kernel computes, as far as its name says."""

import re
from functools import lru_cache

# The first pattern that matches says the category: of the function's name or, if none does, of all with its templates'
# arguments, where many kernels of PyTorch have what they compute.
_PATTERNS = {
    "communication": r"nccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|send_?recv",
    "attention": r"attn|attention|flash|fmha|soft_?max|rope|rotary",
    "convolution": r"conv(?!ert)|im2col|winograd|fprop|dgrad|wgrad",
    "matmul": r"gemm|gemv|mul_?mat|mat_?mul|mmq|mmv|cutlass|cublas|nvjet|wmma|splitk",
    "norm": r"norm",
    "copy": r"copy|cpy|convert|transpose|memset|fill|(?<!b)cast|quant|concat|get_rows|set_rows|gather|scatter|cat_",
    "reduction": r"reduc|argmax|argsort|sort|cumsum|sum|scan|top_?k|_red_|_per_",
    "elementwise": r"elementwise|vectorized|pointwise|_poi_|add|mul|div|scale|gelu|relu|silu|tanh|sigmoid|nary|glu",
}
OTHER = "other"
CATEGORIES = (*_PATTERNS, OTHER)
_COMPILED = {category: re.compile(pattern, re.IGNORECASE) for category, pattern in _PATTERNS.items()}
_ARGUMENTS = re.compile(r"[<(]")


@lru_cache(maxsize=1 << 16)
def category_of(kernel: str) -> str:
    """The category of the kernel with this name; `other` if the name does not say."""
    function = _ARGUMENTS.split(kernel, maxsplit=1)[0]
    for text in (function, kernel):
        for category, pattern in _COMPILED.items():
            if pattern.search(text):
                return category
    return OTHER
