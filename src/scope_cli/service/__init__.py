"""Agent and server as services of systemd.

`files` says where the files of a service lie, `install` writes them and `uninstall` removes them, and `units` are the
files themselves (deploy/systemd). `front` and `front_install` do the same for nginx in front of servers; its files are
`nginx` (deploy/nginx/scope). `system` has what both do to a system. `notify` tells the service manager the state of a
running daemon.
"""
