/* LIBRARY: functions named as CUDA's that do nothing. Else a program: FUNCTION CALLS CPU, prints ns a call. */
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
	unsigned int x, y, z;
} dim3;

#ifdef LIBRARY

__attribute__((noinline)) static int work(volatile int *value)
{
	return *value;
}

int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream)
{
	volatile int success = 0;

	return work(&success);
}

int cudaStreamSynchronize(void *stream)
{
	volatile int success = 0;

	return work(&success);
}

#else

int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaStreamSynchronize(void *);

int main(int argc, char **argv)
{
	long calls = atol(argv[2]), i;
	struct timespec begin, end;
	dim3 one = {1, 1, 1};
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[3]), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (strcmp(argv[1], "cudaLaunchKernel") == 0)
		for (i = 0; i < calls; i++)
			cudaLaunchKernel((void *)main, one, one, NULL, 0, NULL);
	else
		for (i = 0; i < calls; i++)
			cudaStreamSynchronize(NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.1f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / calls);
	return 0;
}

#endif
