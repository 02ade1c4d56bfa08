// Calls functions of many kinds. Usage: spans WHAT [N [FILE]]. Tells each call of `told` in FILE, as JSON.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone, used))

struct inner {
	int64_t number;
	const char *name;
	double real;
	float small;
};

struct outer {
	int32_t first;
	int16_t second;
	uint8_t third;
	struct inner *inner;
};

static volatile long sink;

KEPT int64_t told(int8_t small, uint32_t middle, const char *text, struct outer *outer, int64_t a4, int64_t a5,
		  int64_t a6, int64_t a7, int64_t a8, int64_t a9)
{
	sink += small + middle + (text ? strlen(text) : 0) + (outer ? outer->first : 0) + a4 + a5 + a6 + a7 + a8 + a9;
	return a9 * 1000003;
}

KEPT const char *name_of(int number)
{
	static const char *const names[] = {"zero", "one", "two"};

	sink += number + strlen(names[number]);
	return names[number];
}

KEPT long fib(int number)
{
	long found = number < 2 ? number : fib(number - 1) + fib(number - 2);

	sink++;
	return found;
}

KEPT void step_one(int number)
{
	sink += number;
}

KEPT void step_two(int number)
{
	sink += 2 * number;
}

KEPT void sleeps(int us)
{
	usleep(us);
	sink++;
}

/* Uses this much CPU time. */
KEPT void burns(int ms)
{
	struct timespec used;
	int64_t begin = 0, ns;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
		ns = used.tv_sec * 1000000000LL + used.tv_nsec;
		begin = begin ? begin : ns;
	} while (ns - begin < ms * 1000000LL);
}

/* Uses CPU time before and after the process is stopped. */
KEPT void stops(int ms)
{
	burns(ms);
	raise(SIGSTOP);
	burns(ms);
}

/* Writes to new pages. */
KEPT void faults(int pages)
{
	size_t size = pages * 4096UL;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, size, MADV_NOHUGEPAGE);
	for (int i = 0; i < pages; i++)
		memory[i * 4096UL] = 1;
	munmap(memory, size);
}

static pthread_barrier_t both;

/* Waits for the other thread, which is on the same CPU, and then competes with it. */
KEPT void competes(int ms)
{
	pthread_barrier_wait(&both);
	burns(ms);
}

static void *competitor(void *ms)
{
	competes((int)(intptr_t)ms);
	return NULL;
}

static void compete(int ms)
{
	pthread_t thread;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one); /* the new thread inherits it */
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, competitor, (void *)(intptr_t)ms);
	competes(ms);
	pthread_join(thread, NULL);
}

static jmp_buf back;

KEPT void jumps(int depth)
{
	if (!depth)
		longjmp(back, 1);
	jumps(depth - 1);
	sink++;
}

KEPT void last(int number)
{
	sink += number;
}

__attribute__((noinline, noclone, used, optimize("O2"))) void passes_on(int number)
{
	sink++;
	last(number + 1); // a jump, not a call
}

KEPT void ends_thread(int number)
{
	if (number)
		ends_thread(number - 1);
	else
		pthread_exit(NULL);
	sink++;
}

static void *in_thread(void *number)
{
	ends_thread((int)(intptr_t)number);
	return NULL;
}

static void tell_calls(int count, const char *path)
{
	FILE *out = fopen(path ? path : "/dev/null", "w");
	struct inner inner = {.number = -77, .name = "inner name", .real = -2.5, .small = 0.75};

	told(0, 0, "", NULL, 0, 0, 0, 0, 0, 0);
	inner.number = name_of(1)[0];
	for (int i = 0; i < count; i++) {
		struct outer outer = {.first = -i, .second = -2 * i, .third = 200 + i, .inner = i % 2 ? &inner : NULL};
		char text[32];

		snprintf(text, sizeof(text), "call \"%d\" é", i);
		int64_t result = told(-i, 3000000000u + i, text, &outer, 4, -5, 6, 7, i, -i);

		fprintf(out,
			"{\"small\": %d, \"middle\": %u, \"text\": %d, \"first\": %d, \"second\": %d, \"third\": %u, "
			"\"number\": %" PRId64 ", \"a8\": %d, \"a9\": %d, \"result\": %" PRId64 "}\n",
			-i, 3000000000u + i, i, outer.first, outer.second, outer.third, inner.number, i, -i, result);
	}
	fclose(out);
}

int main(int argc, char **argv)
{
	const char *what = argv[1];
	int count = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(what, "told"))
		tell_calls(count, argc > 3 ? argv[3] : NULL);
	if (!strcmp(what, "names"))
		for (int i = 0; i < 3; i++)
			name_of(i);
	if (!strcmp(what, "fib"))
		fib(count);
	if (!strcmp(what, "steps"))
		for (int i = 0; i < count; i++) {
			step_one(i);
			step_two(i);
		}
	if (!strcmp(what, "sleeps"))
		for (int i = 0; i < count; i++)
			sleeps(i % 2 ? 20000 : 0);
	if (!strcmp(what, "where")) {
		sleeps(20000);
		burns(20);
		faults(500);
		compete(30);
	}
	if (!strcmp(what, "stops"))
		for (int i = 0; i < 3; i++)
			stops(5);
	if (!strcmp(what, "jumps")) {
		if (!setjmp(back))
			jumps(3);
		last(1);
	}
	if (!strcmp(what, "passes_on"))
		passes_on(count);
	if (!strcmp(what, "thread")) {
		pthread_t thread;

		pthread_create(&thread, NULL, in_thread, (void *)(intptr_t)count);
		pthread_join(thread, NULL);
	}
	if (!strcmp(what, "exec"))
		execl("/bin/true", "true", NULL);
	return 0;
}
