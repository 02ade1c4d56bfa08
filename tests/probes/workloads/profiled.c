// Stops itself; then spends time in known functions, and tells how much. Usage: profiled MS_ON_CPU MS_ASLEEP.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KEPT __attribute__((noinline, noclone, used))

static volatile long sink;

static long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

KEPT void works(long ns)
{
	long end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 1000000; i++)
			sink += i;
}

KEPT void sleeps(long ns)
{
	struct timespec time = {ns / 1000000000, ns % 1000000000};

	nanosleep(&time, NULL);
	sink++; // no tail call
}

KEPT void *thread(void *ns)
{
	sleeps((long)ns);
	sink++;
	return NULL;
}

int main(int argc, char **argv)
{
	long on_cpu_ns = atol(argv[1]) * 1000000, asleep_ns = atol(argv[2]) * 1000000, begun_ns;
	pthread_t started;

	raise(SIGSTOP);
	begun_ns = now_ns(CLOCK_MONOTONIC);
	works(on_cpu_ns);
	sleeps(asleep_ns);
	pthread_create(&started, NULL, thread, (void *)asleep_ns);
	pthread_join(started, NULL);
	printf("%ld\n", now_ns(CLOCK_MONOTONIC) - begun_ns);
	return argc != 3;
}
