/* Waits of known number for locks of known holders. Prints addresses and threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#define NAMED __attribute__((noinline, noclone))
#define ROUNDS 13

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, inherits;
static pthread_barrier_t begun, ended;
static uint32_t word = 7, first = 3, second = 5;
static long waited_ns;
static pid_t volatile waits;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

NAMED void contend(pthread_mutex_t *lock)
{
	long before = now_ns();

	pthread_mutex_lock(lock);
	waited_ns += now_ns() - before;
	pthread_mutex_unlock(lock);
}

static void *waiter(void *lock)
{
	waits = gettid();
	prctl(PR_SET_NAME, "wai\033[31mter");
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&begun);
		contend(lock);
		pthread_barrier_wait(&ended);
	}
	return NULL;
}

/* Has the lock's word been changed by a thread that sleeps now? */
static int is_waited_for(uint32_t volatile *word)
{
	char path[64], state = 0;
	FILE *file;

	if (*word != 2 && !(*word & FUTEX_WAITERS))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", waits);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		abort();
	fclose(file);
	return state == 'S';
}

static void hold(pthread_mutex_t *lock)
{
	pthread_t thread;

	pthread_barrier_init(&begun, NULL, 2);
	pthread_barrier_init(&ended, NULL, 2);
	pthread_create(&thread, NULL, waiter, lock);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(lock);
		pthread_barrier_wait(&begun);
		while (!is_waited_for((uint32_t *)lock))
			usleep(100);
		usleep(2000);
		pthread_mutex_unlock(lock);
		pthread_barrier_wait(&ended);
	}
	pthread_join(thread, NULL);
}

NAMED void time_out(void)
{
	struct timespec shortly = {.tv_nsec = 1000000};

	for (int i = 0; i < 17; i++)
		if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &shortly, NULL, 0) != -1 || errno != ETIMEDOUT)
			abort();
}

NAMED void changed(void)
{
	for (int i = 0; i < 101; i++)
		if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 8, NULL, NULL, 0) != -1 || errno != EAGAIN)
			abort();
}

// Waits for one of two words; `changes`: the second one does not have the expected value.
static long wait_for_one(int changes, struct timespec *until)
{
	struct futex_waitv both[2] = {
		{.val = first, .uaddr = (uintptr_t)&first, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
		{.val = second + changes, .uaddr = (uintptr_t)&second, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
	};

	return syscall(SYS_futex_waitv, both, 2, 0, until, CLOCK_MONOTONIC);
}

static void *wait_for_second(void *unused)
{
	if (wait_for_one(0, NULL) != 1)
		abort();
	return unused;
}

static void several(void)
{
	struct timespec past = {.tv_nsec = 1};
	pthread_t thread;

	for (int i = 0; i < 5; i++)
		if (wait_for_one(0, &past) != -1 || errno != ETIMEDOUT)
			abort();
	for (int i = 0; i < 7; i++)
		if (wait_for_one(1, NULL) != -1 || errno != EAGAIN)
			abort();
	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, NULL, wait_for_second, NULL);
		while (!syscall(SYS_futex, &second, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0))
			usleep(100);
		pthread_join(thread, NULL);
	}
}

/* include/uapi/linux/futex.h, include/uapi/asm-generic/unistd.h, since 6.7 */
#define CALL_FUTEX_WAKE 454
#define CALL_FUTEX_WAIT 455
#define FUTEX2_SIZE_U32 2
#define ANY_BIT 0xffffffffUL

static uint32_t held[4] = {2}; /* as in glibc's mutexes: the state, and the holder's tid at the third place */

static long futex_wait(unsigned long value, struct timespec *until)
{
	return syscall(CALL_FUTEX_WAIT, held, value, ANY_BIT, FUTEX2_SIZE_U32 | FUTEX_PRIVATE_FLAG, until,
		       CLOCK_MONOTONIC);
}

static void *wait_for_held(void *unused)
{
	if (futex_wait(2, NULL))
		abort();
	return unused;
}

/* 0: the kernel has no such call. */
static int newer(void)
{
	struct timespec past = {.tv_nsec = 1};
	pthread_t thread;

	held[2] = getpid();
	if (futex_wait(3, NULL) == -1 && errno == ENOSYS)
		return 0;
	for (int i = 0; i < 6; i++) /* beside the one above */
		if (futex_wait(3, NULL) != -1 || errno != EAGAIN)
			abort();
	for (int i = 0; i < 5; i++)
		if (futex_wait(2, &past) != -1 || errno != ETIMEDOUT)
			abort();
	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, NULL, wait_for_held, NULL);
		while (!syscall(CALL_FUTEX_WAKE, held, ANY_BIT, 1, FUTEX2_SIZE_U32 | FUTEX_PRIVATE_FLAG))
			usleep(100);
		pthread_join(thread, NULL);
	}
	return 1;
}

int main(void)
{
	pthread_mutexattr_t inheriting;

	pthread_mutexattr_init(&inheriting);
	pthread_mutexattr_setprotocol(&inheriting, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&inherits, &inheriting);
	hold(&mutex);
	printf("mutex %lu\nwaited %ld\n", (unsigned long)&mutex, waited_ns);
	hold(&inherits);
	time_out();
	changed();
	several();
	printf("inherits %lu\nword %lu\n", (unsigned long)&inherits, (unsigned long)&word);
	printf("newer %d\nheld %lu\n", newer(), (unsigned long)held);
	printf("first %lu\nsecond %lu\n", (unsigned long)&first, (unsigned long)&second);
	return 0;
}
