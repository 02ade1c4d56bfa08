"""Calls Python functions in every way, and tells them as sys.setprofile does: python_calls.py OUT THREADS DEPTH."""

# It also runs under CPython 3.6, and calls in every way there is:
# ruff: noqa: UP028, PLC2401, PLC3002, SIM105, PTH123

import functools
import json
import sys
import threading

told = []  # of each thread: calls in order of their begin: function, file, line, line of its def, depth
here = threading.local()


def profile(frame, event, _):
    if event == "call":
        code = frame.f_code
        depth = here.__dict__.setdefault("depth", 0)
        if "calls" not in here.__dict__:
            here.calls = []
            told.append(here.calls)
        here.calls.append([code.co_name, code.co_filename, frame.f_lineno, code.co_firstlineno, depth])
        here.depth = depth + 1
    elif event == "return":
        here.depth = here.__dict__.get("depth", 1) - 1


def numbers(count):
    for number in range(count):
        yield number


def delegates(count):
    got = yield from numbers(count)
    return got


def recurses(left):
    return recurses(left - 1) + 1 if left else 0


def fails(depth):
    if depth:
        fails(depth - 1)
    raise ValueError(depth)


def resists():
    while True:
        try:
            yield 1
        except KeyError:
            yield 2


@functools.lru_cache(None)
def remembered(number):
    return number * 2


def décorée(number):
    return number


class Shop:
    def __init__(self, stock):
        self.stock = stock

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return True

    @property
    def sold(self):
        return [sale(one) for one in self.stock]

    @staticmethod
    def closes():
        raise RuntimeError


def sale(one):
    return (lambda price: price + 1)(one)


class Waited:
    def __await__(self):
        return (yield self)


async def waits(number):
    await Waited()
    return number


async def gathers():
    return [await waits(number) for number in range(3)]


def work():
    list(numbers(7))
    list(delegates(5))
    recurses(int(sys.argv[3]))
    for depth in (0, 3):
        try:
            fails(depth)
        except ValueError:
            pass
    resisting = resists()
    next(resisting)
    resisting.throw(KeyError)
    resisting.close()
    unfinished = numbers(3)
    next(unfinished)
    try:
        unfinished.throw(OSError)
    except OSError:
        pass
    [remembered(number % 3) for number in range(10)]
    with Shop([1, 2, 3]) as shop:
        sorted(shop.sold, key=lambda price: -price)
        shop.closes()
    {number: sale(number) for number in numbers(4)}
    décorée(1)
    gathering = gathers()
    try:
        while True:
            gathering.send(None)
    except StopIteration:
        pass
    json.dumps({"a": [1, 2, {"b": None}]}, indent=1)
    exec(compile("def f():\n  return 1\nf()", "<made>", "exec"), {})


def main(out, threads):
    sys.setprofile(profile)
    work()
    sys.setprofile(None)

    def one():
        sys.setprofile(profile)
        work()
        sys.setprofile(None)

    others = [threading.Thread(target=one) for _ in range(threads)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    with open(out, "w") as file:
        json.dump(told, file)


main(sys.argv[1], int(sys.argv[2]))
