"""Computes in several Python functions, one after the other, until it is ended. Stops itself first.

How long each takes is random: what samples at regular times must not see the same moment again and again.
"""

import os
import random
import signal


def fibonacci(number):
    if number < 2:
        return number
    return fibonacci(number - 1) + fibonacci(number - 2)


def sums(count):
    total = 0
    for number in range(count):
        total += number % 7
        total ^= number
    return total


def sorts(count):
    return sorted(str(number * 7919 % count) for number in range(count))


class Primes:
    def __init__(self):
        self.found = []

    def search(self, limit):
        for number in range(2, limit):
            if self.is_prime(number):
                self.found.append(number)

    def is_prime(self, number):
        for prime in self.found:  # noqa: SIM110
            if number % prime == 0:
                return False
        return True


def work(chance):
    fibonacci(chance.randrange(10, 16))
    sums(chance.randrange(10000))
    sorts(chance.randrange(4000))
    Primes().search(chance.randrange(1400))


os.kill(os.getpid(), signal.SIGSTOP)
numbers = random.Random(1)
while True:
    work(numbers)
