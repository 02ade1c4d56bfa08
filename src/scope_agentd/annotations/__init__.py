"""Annotations of programs on this machine: `socket` takes them, `outbox` keeps them, `delivery` sends them."""
