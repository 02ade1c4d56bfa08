"""What `make bench` runs: ratios from one run, since the machine is noisy."""
