"""From C structs, by the types in a compiled object (`btf`), to records of numpy (`records`) and columns (`fields`)."""
