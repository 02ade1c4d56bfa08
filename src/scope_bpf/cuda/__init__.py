"""What is particular to CUDA: its functions, its errors, and how a launch finds the name of its kernel."""
