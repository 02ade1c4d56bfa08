"""From the kernel to batches: loads BPF objects, attaches them, drains what they emit. Knows no daemon and no network."""
