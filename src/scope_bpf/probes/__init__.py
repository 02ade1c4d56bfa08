"""One module a probe: what its C cannot say. Found by `scope_bpf.catalogue`; listed nowhere."""
