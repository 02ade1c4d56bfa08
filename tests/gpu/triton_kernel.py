"""A Triton kernel. Triton compiles it from the source in this file."""

import triton
import triton.language as tl


@triton.jit
def double_all(x, count, BLOCK: tl.constexpr):
    """Doubles each element."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < count) * 2, mask=offsets < count)
