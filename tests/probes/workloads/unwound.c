// Calls getppid() from places that are hard to unwind, after it has stopped itself. Usage: unwound. Built without frame
// pointers.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone, used))

static volatile long sink;

KEPT void leaf(void)
{
	sink += getppid();
	sink++; // no tail call
}

// The frame has another size in each call: it is found by the frame pointer.
KEPT void grows(long bytes)
{
	volatile char *memory = alloca(bytes);

	memset((void *)memory, 1, bytes);
	leaf();
	sink += memory[bytes - 1];
}

// The stack is aligned, so that only a saved pointer tells where the frame begins.
KEPT void aligned(void)
{
	volatile char __attribute__((aligned(64))) memory[64];
	volatile char *more = alloca(sink % 7 + 1);

	memory[(uintptr_t)memory & 63] = 1;
	more[0] = 1;
	leaf();
	sink += memory[0] + more[0];
}

KEPT int compare(const void *left, const void *right)
{
	leaf();
	return *(const int *)left - *(const int *)right;
}

KEPT void sorts(void)
{
	int numbers[] = {2, 1};

	qsort(numbers, 2, sizeof(*numbers), compare);
	sink += numbers[0];
}

KEPT void on_signal(int number)
{
	sink += number;
	leaf();
	sink++;
}

// The signal comes in the middle of this function.
KEPT void signalled(void)
{
	asm volatile("mov %0, %%edi; mov $39, %%eax; syscall; mov %%eax, %%edi; mov $10, %%esi; mov $62, %%eax; syscall"
		     :
		     : "i"(0)
		     : "rax", "rdi", "rsi", "rcx", "r11", "memory");
	sink++;
}

KEPT void recurses(int depth)
{
	if (depth)
		recurses(depth - 1);
	else
		leaf();
	sink++;
}

KEPT void *thread(void *unused)
{
	leaf();
	sink++;
	return unused;
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t started;

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGSTOP);
	leaf();
	grows(1000 + sink % 3);
	aligned();
	sorts();
	signalled();
	recurses(3);
	pthread_create(&started, NULL, thread, NULL);
	pthread_join(started, NULL);
	return 0;
}
