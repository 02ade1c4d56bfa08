"""Two processes listen at one port with SO_REUSEPORT; none accepts one of 31 clients. Prints as JSON what ss says of
the two sockets: cookie, pid, connections that wait, and how many may."""

import json
import os
import re
import socket
import subprocess
import sys
import time

CLIENTS = 31


def listen(port: int, backlog: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", port))
    server.listen(backlog)
    return server


def said(port: int) -> list[list[int]]:
    told = subprocess.run(["ss", "-ltnpeH", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    pattern = r"LISTEN (\d+) +(\d+) .*pid=(\d+).* sk:([0-9a-f]+)"
    found = [re.match(pattern, line) for line in told.splitlines()]
    return sorted([int(one[4], 16), int(one[3]), int(one[1]), int(one[2])] for one in found if one)


first = listen(0, 53)
port = first.getsockname()[1]
child_listens, tell_parent = os.pipe()
parent_is_done, tell_child = os.pipe()
if not os.fork():
    first.close()
    os.close(tell_child)
    second = listen(port, 97)
    os.write(tell_parent, b"x")
    os.read(parent_is_done, 1)
    second.close()
    os._exit(0)
os.read(child_listens, 1)
clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
while sum(one[2] for one in said(port)) < CLIENTS:
    time.sleep(0.01)
time.sleep(1)  # there are rows of the queues meanwhile
print(json.dumps({"port": port, "ss": said(port)}))
sys.stdout.flush()
os.close(tell_child)
os.wait()
first.close()
