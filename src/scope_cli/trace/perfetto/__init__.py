"""Traces for Perfetto (ui.perfetto.dev): threads, streams and devices on one timeline."""
