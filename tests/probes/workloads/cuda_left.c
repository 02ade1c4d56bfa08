/*
 * Calls that do not return normally. The stand-in's cudaDeviceSynchronize() calls nanosleep(), which this file replaces
 * with a function that jumps out of the call, ends the thread, or ends the process. Given a path, the program makes
 * calls that sleep and return, without end, and keeps their number in that file.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int cudaMalloc(void **pointer, size_t bytes);
int cudaDeviceSynchronize(void);

static enum { JUMP, END_THREAD, END_PROCESS, SLEEP } how;
static jmp_buf back;

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	switch (how) {
	case JUMP:
		longjmp(back, 1);
	case END_THREAD:
		pthread_exit(NULL);
	case END_PROCESS:
		exit(7);
	case SLEEP:
		return usleep(1000);
	}
	return 0;
}

static void allocate(int times, size_t bytes)
{
	void *pointer;

	while (times--)
		cudaMalloc(&pointer, bytes);
}

/* This call is deeper in the stack than later calls. */
__attribute__((noinline)) static int wait_deep(void)
{
	volatile char room[4096] = {};

	return cudaDeviceSynchronize() + room[0];
}

static void *end_within(void *unused)
{
	allocate(11, 211);
	cudaDeviceSynchronize();
	return unused;
}

static void *end_well(void *unused)
{
	allocate(13, 223);
	return unused;
}

static void count(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	volatile long *returned;

	if (ftruncate(fd, sizeof(*returned)))
		exit(1);
	returned = mmap(NULL, sizeof(*returned), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (;; ++*returned)
		cudaDeviceSynchronize();
}

int main(int argc, char **argv)
{
	pthread_t thread;
	volatile int i;

	if (argc > 1) {
		how = SLEEP;
		count(argv[1]);
	}
	for (i = 0; i < 9; i++) { /* more often than the probe keeps nested calls */
		if (!setjmp(back))
			wait_deep();
		allocate(1, 199);
	}
	for (i = 0; i < 7; i++) /* from the same place in the stack, with no call between */
		if (!setjmp(back))
			wait_deep();
	how = END_THREAD;
	pthread_create(&thread, NULL, end_within, NULL);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, end_well, NULL);
	pthread_join(thread, NULL);
	how = END_PROCESS;
	cudaDeviceSynchronize();
	return 0;
}
