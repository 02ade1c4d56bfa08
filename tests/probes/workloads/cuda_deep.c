/*
 * Makes calls nested seven deep, as many times as argv[1] says. The stand-in's cudaDeviceSynchronize() calls
 * nanosleep(), which this file replaces with a function that calls cudaDeviceSynchronize() again.
 */
#include <stdlib.h>
#include <time.h>

#define DEPTH 7

int cudaDeviceSynchronize(void);

static int left;

int nanosleep(const struct timespec *wanted, struct timespec *rest)
{
	(void)wanted, (void)rest;
	return left-- > 0 ? cudaDeviceSynchronize() : 0;
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 0;

	while (times--) {
		left = DEPTH - 1;
		cudaDeviceSynchronize();
	}
	return 0;
}
