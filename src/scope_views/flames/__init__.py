"""Flame graphs: folded (stacks with their weights, added up), text (for other tools), svg (a picture for a browser)."""
