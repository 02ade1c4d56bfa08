"""The `scope` command."""
