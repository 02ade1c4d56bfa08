"""The benchmarks of `make bench`. They compare values of the same run, since the machine is noisy."""
