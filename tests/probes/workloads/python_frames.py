"""Calls getppid() from all kinds of Python frames, after it has stopped itself. For CPython 3.8 and later.

Prints a JSON list with the Python frames at each call, innermost first, as the interpreter itself knows them.
"""

import ctypes
import functools
import json
import os
import signal
import sys
import threading

libc = ctypes.CDLL(None)
told = []


def frames():
    found, frame = [], sys._getframe(1)
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        found.append(f"{name} ({code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return found


def leaf():
    told.append([frames(), libc.getppid()][0])  # both on one line


class Thing:
    def method(self):
        leaf()

    @property
    def shown(self):
        return leaf()

    def __lt__(self, other):
        leaf()
        return False


def generator(count):
    for _ in range(count):
        leaf()
        yield 1


def recurse(depth):
    if depth:
        return recurse(depth - 1)
    return leaf()


def raises():
    try:
        raise ValueError
    except ValueError:
        leaf()
    finally:
        leaf()


def decorated(function):
    @functools.wraps(function)
    def around(*arguments):
        return function(*arguments)

    return around


@decorated
def wrapped(number):
    (leaf)() if number else None


async def coroutine():
    leaf()


def long_function():
    a = 1
    if a:
        leaf()

    def inner():
        (leaf())

    inner()
    [leaf() for _ in range(2)]
    exec("leaf()", globals())
    return a


def ünïcode():  # noqa: PLC2401
    leaf()


def driven(routine):
    try:  # noqa: SIM105
        routine.send(None)
    except StopIteration:
        pass


def all_kinds():
    leaf()
    Thing().method()
    Thing().shown  # noqa: B018
    sorted([Thing(), Thing()])
    list(generator(2))
    recurse(3)
    raises()
    wrapped(1)
    driven(coroutine())
    long_function()
    ünïcode()
    list(map(lambda _: leaf(), [1]))  # noqa: C417


os.kill(os.getpid(), signal.SIGSTOP)
all_kinds()
thread = threading.Thread(target=all_kinds)
thread.start()
thread.join()
print(json.dumps(told))
