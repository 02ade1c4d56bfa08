"""Flame graphs: folded (stacks with their weights, added up), svg (one picture of them), sink (both as files)."""
