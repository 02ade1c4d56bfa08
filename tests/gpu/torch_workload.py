"""Runs small PyTorch and Triton computations, and writes the accounts of the profiler and the allocator.

The profiler runs from before the first kernel until after the last one: it has every launch of this process.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

DEVICE = "cuda"
SETTLE_S = 3.0  # SCOPE attaches to libraries a little after they are mapped, and these are large
EVENTS = {"kernel", "cuda_runtime", "cuda_driver"}
MEMORY = ("reserved_bytes.all.peak", "reserved_bytes.all.allocated", "segment.all.allocated", "segment.all.freed")


def compute() -> None:
    """Launches kernels of PyTorch and cuBLAS, from this thread and from the backward thread."""
    torch.manual_seed(1)
    x = torch.randn(257, 257, device=DEVICE)
    half = x.half()
    for _ in range(7):
        y = x @ x
    for _ in range(5):
        half @ half
    for _ in range(11):
        torch.softmax(x, dim=1)
    ((x + y) * 2).relu().sum()
    torch.cat((x.sort().values, y.cumsum(0))).argmax()
    heads = torch.randn(2, 3, 64, 32, device=DEVICE, dtype=torch.float16)
    functional.scaled_dot_product_attention(heads, heads, heads)
    layers = (torch.nn.Linear(257, 131), torch.nn.GELU(), torch.nn.LayerNorm(131), torch.nn.Linear(131, 17))
    model = torch.nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def allocate() -> None:
    """Allocates blocks that need their own segments, and frees one of them."""
    kept = [torch.empty(size << 20, dtype=torch.uint8, device=DEVICE) for size in (23, 41, 67)]
    kept.pop(1)
    torch.cuda.empty_cache()


def compute_with_triton() -> str:
    """Compiles and runs a Triton kernel; returns Triton's version, or why the kernel did not run."""
    try:
        import triton
        from tests.gpu.triton_kernel import double_all
    except ImportError as error:
        return str(error)
    x = torch.ones(1009, device=DEVICE)
    try:
        for _ in range(13):
            double_all[(triton.cdiv(1009, 128),)](x, 1009, BLOCK=128)
    except Exception as error:  # Triton needs the host's C compiler; failures raise many types
        return f"it cannot compile here: {error}"
    return str(triton.__version__)


def main(account: Path) -> None:
    """Runs the computations and writes the accounts, one JSON object per line."""
    torch.cuda.init()
    time.sleep(SETTLE_S)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        compute()
        allocate()
        triton = compute_with_triton()
        torch.cuda.synchronize()
    statistics = torch.cuda.memory_stats()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    host = {"row": "host", "torch": torch.__version__, "cuda": torch.version.cuda, "triton": triton}
    memory = {"row": "memory", **{name: statistics[name] for name in MEMORY}}
    profiled = ({"row": event["cat"], **event} for event in events if event.get("cat") in EVENTS)
    account.write_text("".join(f"{json.dumps(line)}\n" for line in (host, memory, *profiled)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
