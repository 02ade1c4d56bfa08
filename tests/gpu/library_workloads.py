"""Programs of libraries whose kernels come from many places: their own, cuBLAS, cuFFT, cuDNN, compilers.

Each launches the same kernels whenever it runs, so that two runs can be compared.
usage: python -m tests.gpu.library_workloads NAME [FILE]
"""

import os
import sys


def cupy() -> None:
    """CuPy's own kernels, CUB, a kernel from source, and cuBLAS, cuFFT, cuRAND and cuSPARSE."""
    import cupy as cp
    from cupyx.scipy import sparse

    x = cp.random.default_rng(7).random((512, 512), dtype=cp.float32)
    (x * 2 + x @ x.T).sum(axis=0)
    cp.sort(x.ravel())
    cp.fft.fft(x)
    cp.unique((x[:4] * 9).astype(cp.int32))
    sparse.csr_matrix(cp.eye(128, dtype=cp.float32)) @ x[:128]
    code = 'extern "C" __global__ void from_source(float *x) { x[threadIdx.x] += 1; }'
    cp.RawKernel(code, "from_source")((1,), (32,), (x,))
    cp.cuda.Device().synchronize()


def jax() -> None:
    """What XLA compiles, and what it calls. Its autotuner, which runs candidates by their speed, is off."""
    os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax as library
    from jax import numpy as jnp

    x = jnp.ones((256, 256))
    compiled = library.jit(lambda a: jnp.tanh(a @ a).mean(axis=0))
    for _ in range(3):
        compiled(x).block_until_ready()
    jnp.sort(library.random.normal(library.random.key(0), (4096,))).block_until_ready()
    library.lax.conv(jnp.ones((1, 8, 32, 32)), jnp.ones((8, 8, 3, 3)), (1, 1), "SAME").block_until_ready()


def torchvision() -> None:
    """A network and a kernel of torchvision's own; cuDNN, cuSPARSE, cuFFT and attention through PyTorch."""
    import torch
    from torchvision import models, ops

    torch.manual_seed(7)
    with torch.no_grad():
        models.resnet18().cuda().eval()(torch.randn(2, 3, 64, 64, device="cuda"))
    boxes = torch.rand(100, 4, device="cuda")
    boxes[:, 2:] += boxes[:, :2]
    ops.nms(boxes, torch.rand(100, device="cuda"), 0.5)
    torch.sparse.mm(torch.eye(64, device="cuda").to_sparse_csr(), torch.randn(64, 64, device="cuda"))
    torch.fft.fft(torch.randn(1024, device="cuda"))
    torch.topk(torch.randn(10_000, device="cuda"), 5)
    torch.nn.LSTM(16, 16).cuda()(torch.randn(5, 2, 16, device="cuda"))
    torch.cuda.synchronize()


if __name__ == "__main__":
    {"cupy": cupy, "jax": jax, "torchvision": torchvision}[sys.argv[1]]()
