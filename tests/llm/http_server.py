"""A server with Ollama's interface over HTTP, in front of llama.cpp in the same process (PyPI package xllamacpp).

usage: http_server.py MODEL ROUND...

A round is requests that are made at the same time, each by a client of its own in this process: `PATH*N,...` asks for N
tokens. /api/generate and /api/chat stream a JSON object per line, /v1/chat/completions server-sent events, as Ollama
does; with `=` before the path, the answer comes at once. Prints what each client got, as JSON. The process stops itself
(SIGSTOP) when llama.cpp is loaded.
"""
