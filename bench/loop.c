/* loop COUNT [RATE]: so many getppid calls, as fast as they go or RATE a second; prints the nanoseconds a call took. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BURST 100

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **arguments)
{
	long calls = count > 1 ? atol(arguments[1]) : 0, i;
	double rate = count > 2 ? atof(arguments[2]) : 0, begin = now();

	for (i = 0; i < calls; i++) {
		syscall(SYS_getppid);
		if (rate && i % BURST == 0)
			while ((now() - begin) * rate < i * 1e9)
				; /* by the vdso: no call that would be counted */
	}
	printf("%.3f\n", (now() - begin) / calls);
	return 0;
}
