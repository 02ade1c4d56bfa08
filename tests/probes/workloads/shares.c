/*
 * Threads and children that share a CPU; each reports the kernel's counts for it just before it ends.
 *
 * shares spin|sleep|fork MILLISECONDS FILE: `spin`, two threads use so much CPU time each; `sleep`, two threads sleep a
 * millisecond at a time while a third is busy; `fork`, five children use so much CPU time each.
 * Each writes a line to FILE: thread id, run time and time on the run queue in ns, involuntary switches.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long busy_ns;
static int file;

static long used_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000L + used.tv_nsec;
}

static long first_number_after(const char *path, const char *before)
{
	char text[4096] = {};
	int status = open(path, O_RDONLY);

	if (status < 0 || read(status, text, sizeof(text) - 1) < 0)
		exit(1);
	close(status);
	return atol(strstr(text, before) + strlen(before));
}

static void tell(void)
{
	long run_ns = used_ns();
	long waited_ns = first_number_after("/proc/thread-self/schedstat", " ");
	long involuntary = first_number_after("/proc/thread-self/status", "nonvoluntary_ctxt_switches:");

	dprintf(file, "%d %ld %ld %ld\n", gettid(), run_ns, waited_ns, involuntary);
}

static void *spin(void *unused)
{
	while (used_ns() < busy_ns)
		;
	tell();
	return NULL;
}

static void *doze(void *unused)
{
	const struct timespec millisecond = {.tv_nsec = 1000000};

	for (int i = 0; i < 101; i++)
		nanosleep(&millisecond, NULL);
	tell();
	return NULL;
}

static void run(int threads, void *(*const work[])(void *))
{
	pthread_t started[3];

	for (int i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, work[i], NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
}

int main(int argc, char **argv)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	busy_ns = atol(argv[2]) * 1000000L;
	file = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (!strcmp(argv[1], "spin"))
		run(2, (void *(*const[])(void *)){spin, spin});
	else if (!strcmp(argv[1], "sleep"))
		run(3, (void *(*const[])(void *)){spin, doze, doze});
	else
		for (int i = 0; i < 5; i++)
			if (!fork()) {
				spin(NULL);
				_exit(0);
			}
	while (wait(NULL) > 0)
		;
	return 0;
}
