"""From C structs, by the types in a compiled object (`btf`), to fields of numpy and Arrow (`fields`)."""
