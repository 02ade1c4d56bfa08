"""What is known of probes as data: for the server, for agents, and for commands that talk to a server.

`catalogue` reads the file that the build writes from scope_bpf: each `probe` (options, guide) with its `stream`s
(columns, rollups, states). `encoding` converts the definitions to JSON and back; `description` checks a stream that an
agent described. `options` and `target` check what a task asks for. `where` reads filters on rows (`literal` reads their
numbers) and makes a `condition`. `codes` names numbers, `nearest` suggests names. Needs no BPF object, and imports no
other package of the project.
"""
