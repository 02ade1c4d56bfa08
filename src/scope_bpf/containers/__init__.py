"""Which container, pod and systemd unit a process belongs to, and how container engines call them.

In the order of the data: paths (what a cgroup's path says) - engines (names and images of containers, from the engines'
own files and sockets, which are only read) - containers (what is known of a process).
"""
