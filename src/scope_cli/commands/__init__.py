"""One module a subcommand, each with `register`."""
