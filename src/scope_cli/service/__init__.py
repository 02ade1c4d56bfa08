"""Agent and server as services of systemd.

`files` says where the files of a service lie, `install` writes them and `uninstall` removes them, and `units` are the
files themselves (deploy/systemd). `notify` tells the service manager the state of a running daemon.
"""
