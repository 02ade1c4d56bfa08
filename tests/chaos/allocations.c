/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A load with stacks: cudaMalloc and cudaFree, linked with the tests' stand-in for the runtime. The n-th allocation is
 *of n bytes, from one of DEPTHS different stacks. Until SIGTERM; then it prints how many allocations it made, and 0.
 *
 *	allocations PAUSE_US BURST
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEPTHS 31

extern int cudaMalloc(void **pointer, size_t bytes);
extern int cudaFree(void *pointer);

static volatile sig_atomic_t over;

static void end(int signal)
{
	over = signal;
}

static __attribute__((noinline)) int allocate(long depth, long bytes)
{
	void *pointer;
	int result;

	if (depth)
		return allocate(depth - 1, bytes) + 1; /* no tail call: it would leave no frame */
	result = cudaMalloc(&pointer, bytes);
	cudaFree(pointer);
	return result;
}

int main(int count, char **words)
{
	long pause = count > 1 ? atol(words[1]) : 1000;
	long burst = count > 2 ? atol(words[2]) : 10;
	long made = 0;
	char go;

	signal(SIGTERM, end);
	if (read(0, &go, 1) != 1)
		return 1;
	while (!over) {
		for (long i = 0; i < burst; i++, made++)
			allocate(made % DEPTHS, made + 1);
		usleep(pause);
	}
	printf("%ld 0\n", made);
	return 0;
}
