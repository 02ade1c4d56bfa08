/* A heap of known leaks: each function leaks a prime number of blocks of its own size. Prints what it must tell. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Callers are found by frame pointers from the first moment on. */
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#define NAMED __attribute__((noinline, noclone))

static void *volatile kept;
static size_t volatile huge = SIZE_MAX / 2 + 7; /* no compiler may know that it must fail */

NAMED void by_malloc(void)
{
	for (int i = 0; i < 101; i++)
		kept = malloc(307);
}

NAMED void by_calloc(void)
{
	for (int i = 0; i < 53; i++)
		kept = calloc(7, 11);
}

NAMED void by_posix_memalign(void)
{
	for (int i = 0; i < 17; i++) {
		void *memory;

		if (posix_memalign(&memory, 64, 1000))
			abort();
		kept = memory;
	}
}

NAMED void by_aligned_alloc(void)
{
	for (int i = 0; i < 13; i++)
		kept = aligned_alloc(64, 640);
}

NAMED void by_memalign(void)
{
	for (int i = 0; i < 11; i++)
		kept = memalign(32, 333);
}

NAMED void by_valloc(void)
{
	for (int i = 0; i < 3; i++)
		kept = valloc(5003);
}

NAMED void by_reallocarray(void)
{
	for (int i = 0; i < 19; i++)
		kept = reallocarray(NULL, 5, 13);
}

/* Nothing stays of these. */
NAMED void freed(void)
{
	for (int i = 0; i < 1009; i++) {
		kept = malloc(100);
		free(kept);
	}
	free(NULL);
}

NAMED void *first(void)
{
	return malloc(1000);
}

NAMED void *again(void *memory, size_t size)
{
	return realloc(memory, size);
}

/* Grows until it has moved; all that time it is one block. */
NAMED void grown(void)
{
	void *memory = first(), *before = memory;
	int stayed = 0, moved = 0;

	for (int i = 1; i <= 41; i++) {
		memory = again(memory, i < 41 ? 1000 + i : 1 << 20);
		moved += memory != before;
		stayed += memory == before;
		before = memory;
	}
	kept = memory;
	printf("stayed %d\nmoved %d\n", stayed, moved);
}

/* A realloc that fails frees nothing; one of nothing allocates; one to nothing frees, or returns a block without room.
 */
NAMED void refused(void)
{
	void *memory = malloc(509);

	if (realloc(memory, huge) || malloc(huge) || calloc(huge, 3) || reallocarray(memory, huge, 4))
		abort();
	kept = memory;
}

NAMED void emptied(void)
{
	kept = realloc(malloc(99), 0);
	printf("empty %d\n", kept != NULL);
}

static void *blocks[1013];
static pthread_barrier_t made;

NAMED void produce(void)
{
	for (int i = 0; i < 1013; i++)
		blocks[i] = malloc(48 + i);
}

static void *producer(void *unused)
{
	produce();
	pthread_barrier_wait(&made);
	return unused;
}

static void *consumer(void *unused)
{
	pthread_barrier_wait(&made);
	for (int i = 0; i < 1006; i++) /* seven are left */
		free(blocks[i]);
	return unused;
}

static void across_threads(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&made, NULL, 2);
	pthread_create(&threads[0], NULL, producer, NULL);
	pthread_create(&threads[1], NULL, consumer, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

/* The loader allocates the text of an error, twice if that has more than 100 bytes: the name of the program and this
 * one. */
static void within_dlsym(void)
{
	for (int i = 0; i < 31; i++)
		if (dlsym(RTLD_DEFAULT, "none") || !dlerror())
			abort();
}

NAMED void inherited(void)
{
	for (int i = 0; i < 23; i++)
		blocks[i] = malloc(205);
}

NAMED void by_child(void)
{
	for (int i = 0; i < 7; i++)
		kept = malloc(501);
}

static void forked(void)
{
	pid_t child;

	inherited();
	fflush(stdout);
	child = fork();
	if (!child) {
		for (int i = 0; i < 23; i++)
			free(blocks[i]);
		by_child();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	printf("child %d\n", child);
}

NAMED void before_exec(void)
{
	for (int i = 0; i < 29; i++)
		kept = malloc(211);
}

NAMED void after_exec(void)
{
	for (int i = 0; i < 5; i++)
		kept = malloc(223);
}

NAMED void many(int count, size_t size)
{
	for (int i = 0; i < count; i++) {
		kept = malloc(size);
		if (i % 2)
			free(kept);
	}
}

/* What the allocator itself says is in use. */
static long used(void)
{
#ifdef __GLIBC__
	return (long)mallinfo2().uordblks;
#else
	return 0;
#endif
}

int main(int count, char **args)
{
	const char *what = count > 1 ? args[1] : "all";
	long before;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(what, "after")) {
		after_exec();
	} else if (!strcmp(what, "exec")) {
		before_exec();
		execl("/proc/self/exe", "heap", "after", NULL);
	} else if (!strcmp(what, "errors")) {
		within_dlsym();
	} else if (!strcmp(what, "many")) {
		many(40000, 64);
		many(14, 100000);
	} else {
		freed(); /* the allocator keeps a cache, and in it a block for the next call */
		before = used();
		by_malloc();
		by_calloc();
		freed();
		printf("used %ld\n", used() - before);
		by_posix_memalign();
		by_aligned_alloc();
		by_memalign();
		by_valloc();
		by_reallocarray();
		grown();
		refused();
		emptied();
		across_threads();
		within_dlsym();
		forked();
	}
	return 0;
}
