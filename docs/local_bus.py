"""Prints each program that starts, from the agent's local bus: python3 docs/local_bus.py [SOCKET]"""

import sys
import time

import msgpack
import numpy
import zmq

reader = zmq.Context().socket(zmq.SUB)
joined, expected = time.clock_gettime_ns(time.CLOCK_BOOTTIME), {}
reader.connect(f"ipc://{sys.argv[1] if sys.argv[1:] else '/var/lib/scope/bus/socket'}")
reader.subscribe("exec/")
while True:
    topic, schema, frame = reader.recv_multipart()
    batch, types = msgpack.unpackb(frame), {name: kind for name, kind, unit in msgpack.unpackb(schema)}
    before, columns = batch["events_before"], batch["columns"]
    lost = before - expected.get(batch["run"], 0 if batch["began_ns"] > joined else before)
    expected[batch["run"]] = before + batch["events"]
    if lost:
        print(f"{lost} events were lost here", flush=True)
    if batch["events"]:
        pids, texts = numpy.frombuffer(columns["pid"]["data"], types["pid"]), columns["comm"]["texts"]
        for pid, index in zip(pids, numpy.frombuffer(columns["comm"]["data"], "int32"), strict=True):
            print(pid, texts[index], flush=True)
