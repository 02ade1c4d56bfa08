// Stops itself; then calls getppid() again and again, 20 ms apart. Usage: stripped COUNT.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone, used))

static volatile int sink;

static KEPT void inner(void)
{
	sink += getppid();
	sink++; // no tail call
}

static KEPT void outer(void)
{
	inner();
	sink++;
}

int main(int argc, char **argv)
{
	struct timespec pause = {0, 20000000};

	raise(SIGSTOP);
	for (int count = argc > 1 ? atoi(argv[1]) : 1; count; count--) {
		outer();
		nanosleep(&pause, NULL);
	}
	return 0;
}
