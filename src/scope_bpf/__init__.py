"""From the kernel to batches of columns. Knows no daemon and no network.

In the order of dependence, each importing only those before it: `errors` and `host`; `layout` (what C structs are
like); `catalogue` (which probes there may be); `binding` (the kernel and libbpf); `code` (whose code an address is);
`capture` (a probe that runs). `probes` has the probes themselves.
"""
