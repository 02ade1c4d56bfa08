"""From the kernel to batches: loads, attaches and drains BPF objects. Knows no daemon and no network."""
