// Stops itself if wanted; then asks for the time again and again. Usage: clocks MS [stop].
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <time.h>

static volatile long sink;

static __attribute__((noinline, noclone, used)) long asks(clockid_t clock)
{
	struct timespec now;

	for (int i = 0; i < 1000; i++) {
		clock_gettime(clock, &now);
		sink += now.tv_nsec;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	if (argc > 2)
		raise(SIGSTOP);
	while (asks(CLOCK_MONOTONIC) < atol(argv[1]))
		sink++;
	return 0;
}
