/*
 * A thread that works in one known way for a while, and the kernel's counts of its time.
 *
 * wall spin|sleep|lock|pipe|poll|disk|queue|fault|read MILLISECONDS FILE SCRATCH: for so long a thread is busy; sleeps;
 * waits for a mutex; waits for bytes in a pipe, in read() or in poll(); writes to the file SCRATCH and flushes it; is
 * busy, with another one on the same CPU; touches new pages; touches pages of SCRATCH that are on the disk.
 * Writes a line to FILE for each such thread: thread id; when it was created, began, ended and was joined
 * (CLOCK_BOOTTIME, ns); its run time and its time on the run queue in ns; its minor and major page faults; touched
 * pages.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define STEPS 10
#define PAGES 20011

struct worker {
	pthread_t thread;
	void (*work)(void);
	long created_ns, began_ns, ended_ns, run_ns, waited_ns;
	struct rusage used;
	int tid;
};

static long milliseconds;
static const char *scratch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static long touched; /* pages */

static long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void sleep_for(long ms)
{
	const struct timespec length = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
}

static void spin(void)
{
	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < milliseconds * 1000000L)
		;
}

static void sleep_often(void)
{
	for (int i = 0; i < STEPS; i++)
		sleep_for(milliseconds / STEPS);
}

static void wait_for_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void read_pipe(void)
{
	char byte;

	while (read(ends[0], &byte, 1) == 1)
		;
}

static void poll_pipe(void)
{
	struct pollfd one = {.fd = ends[0], .events = POLLIN};

	poll(&one, 1, -1);
}

static void flush_file(void)
{
	long until_ns = now_ns(CLOCK_BOOTTIME) + milliseconds * 1000000L;
	int file = open(scratch, O_WRONLY | O_CREAT, 0600);
	char block[4096] = {};

	while (now_ns(CLOCK_BOOTTIME) < until_ns)
		if (pwrite(file, block, sizeof(block), 0) < 0 || fsync(file))
			exit(1);
}

static void touch_pages(void)
{
	long page = sysconf(_SC_PAGESIZE);
	char *pages;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < milliseconds * 1000000L) {
		pages = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(pages, PAGES * page, MADV_NOHUGEPAGE);
		for (long i = 0; i < PAGES; i++)
			pages[i * page] = 1;
		munmap(pages, PAGES * page);
		touched += PAGES;
	}
}

/* Reads from the disk, if the file system has one: each 16th page, so that no page is read ahead for another. */
static void read_pages(void)
{
	long until_ns = now_ns(CLOCK_BOOTTIME) + milliseconds * 1000000L, page = sysconf(_SC_PAGESIZE);
	int file = open(scratch, O_RDONLY);
	long size = lseek(file, 0, SEEK_END);
	volatile char *pages;

	while (now_ns(CLOCK_BOOTTIME) < until_ns) {
		posix_fadvise(file, 0, size, POSIX_FADV_DONTNEED);
		pages = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
		madvise((void *)pages, size, MADV_RANDOM);
		for (long at = 0; at < size; at += 16 * page, touched++)
			(void)pages[at];
		munmap((void *)pages, size);
	}
}

static void *run(void *argument)
{
	struct worker *worker = argument;
	char text[100] = {};
	int status;

	worker->began_ns = now_ns(CLOCK_BOOTTIME);
	worker->tid = gettid();
	worker->work();
	getrusage(RUSAGE_THREAD, &worker->used);
	status = open("/proc/thread-self/schedstat", O_RDONLY);
	if (read(status, text, sizeof(text) - 1) <= 0 ||
	    sscanf(text, "%ld %ld", &worker->run_ns, &worker->waited_ns) != 2)
		exit(1);
	worker->ended_ns = now_ns(CLOCK_BOOTTIME);
	return NULL;
}

static void pin(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Ends the waits of the other threads. */
static void serve(const char *work)
{
	if (!strcmp(work, "lock")) {
		sleep_for(milliseconds);
		pthread_mutex_unlock(&lock);
	} else if (!strcmp(work, "pipe")) {
		for (int i = 0; i < STEPS; i++) {
			sleep_for(milliseconds / STEPS);
			if (write(ends[1], "x", 1) != 1)
				exit(1);
		}
		close(ends[1]);
	} else if (!strcmp(work, "poll")) {
		sleep_for(milliseconds);
		close(ends[1]);
	}
}

int main(int, char **argv)
{
	const struct {
		const char *name;
		void (*work)(void);
		int threads;
	} works[] = {{"spin", spin, 1},	     {"sleep", sleep_often, 1}, {"lock", wait_for_lock, 1},
		     {"pipe", read_pipe, 1}, {"poll", poll_pipe, 1},	{"disk", flush_file, 1},
		     {"queue", spin, 2},     {"fault", touch_pages, 1}, {"read", read_pages, 1}};
	struct worker workers[2] = {};
	FILE *out = fopen(argv[3], "w");
	unsigned int which = 0;

	while (strcmp(works[which].name, argv[1]))
		which++;
	milliseconds = atol(argv[2]);
	scratch = argv[4];
	if (pipe(ends))
		return 1;
	if (works[which].threads > 1)
		pin();
	pthread_mutex_lock(&lock);
	for (int i = 0; i < works[which].threads; i++) {
		workers[i].work = works[which].work;
		workers[i].created_ns = now_ns(CLOCK_BOOTTIME);
		pthread_create(&workers[i].thread, NULL, run, &workers[i]);
	}
	serve(argv[1]);
	for (int i = 0; i < works[which].threads; i++) {
		struct worker *worker = &workers[i];

		pthread_join(worker->thread, NULL);
		fprintf(out, "%d %ld %ld %ld %ld %ld %ld %ld %ld %ld\n", worker->tid, worker->created_ns,
			worker->began_ns, worker->ended_ns, now_ns(CLOCK_BOOTTIME), worker->run_ns, worker->waited_ns,
			worker->used.ru_minflt, worker->used.ru_majflt, touched);
	}
	fclose(out);
	return 0;
}
