"""Records events in the kernel and returns batches of columns. Has no daemon and no network code.

Layers, each importing only those before it: `errors` and `host`; `containers` (which container a process runs in);
`cgroups` (what cgroups use); `layout` (layouts of C structs); `catalogue` (definitions of probes); `binding` (the
kernel and libbpf); `code` (names of code addresses); `capture` (running probes). `probes` contains the probes.
"""
