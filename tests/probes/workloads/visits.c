/*
 * Makes known numbers of calls that end in every way: by a return, by a jump, with their thread, with their program.
 * With -DLIBRARY, this is the library of the called functions.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int plus_one(int number);
int jump_to_plus_one(int number);
int count_down(int number);
int visit(int (*next)(int), int number);

#ifdef LIBRARY

int plus_one(int number)
{
	return number + 1;
}

/* A tail call: the compiler makes it a jump, so both functions return to one address. */
int jump_to_plus_one(int number)
{
	return plus_one(number);
}

__attribute__((noinline)) int count_down(int number)
{
	int result = number ? count_down(number - 1) + 1 : 0;

	__asm__ volatile("" : "+r"(result));
	return result;
}

int visit(int (*next)(int), int number)
{
	int result = next(number);

	__asm__ volatile("" : "+r"(result));
	return result;
}

#else

static jmp_buf back;
static int (*at_last)(int);

static int jump_out(int number)
{
	longjmp(back, number + 1);
}

static int end_thread(int number)
{
	(void)number;
	pthread_exit(NULL);
}

static int end_program(int number)
{
	exit(number + 7);
}

static int kill_program(int number)
{
	return number + raise(SIGKILL);
}

static int become_another(int number)
{
	return number + execl("/bin/true", "true", NULL);
}

/* Makes `number` more nested visits, then calls at_last(). */
static int go_deeper(int number)
{
	return number ? visit(go_deeper, number - 1) : at_last(number);
}

/* Its caller returns; the visits that go_deeper() makes are left by a jump. */
static int come_back(int depth)
{
	if (!setjmp(back))
		go_deeper(depth);
	return count_down(2);
}

static void *in_thread(void *depth)
{
	go_deeper((int)(long)depth);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *way = argc > 3 ? argv[1] : "";
	int times = argc > 3 ? atoi(argv[2]) : 0, depth = argc > 3 ? atoi(argv[3]) : 0;
	pthread_t thread;
	volatile int i;

	if (!strcmp(way, "return")) {
		for (i = 0; i < times; i++)
			jump_to_plus_one(plus_one(count_down(depth)));
	} else if (!strcmp(way, "jump")) { /* always from the same place in the stack */
		at_last = jump_out;
		for (i = 0; i < times; i++)
			if (!setjmp(back))
				go_deeper(depth);
		plus_one(times);
	} else if (!strcmp(way, "jump-within")) {
		at_last = jump_out;
		for (i = 0; i < times; i++)
			visit(come_back, depth);
	} else if (!strcmp(way, "threads")) {
		at_last = end_thread;
		for (i = 0; i < times; i++) {
			pthread_create(&thread, NULL, in_thread, (void *)(long)depth);
			pthread_join(thread, NULL);
		}
	} else {
		at_last = !strcmp(way, "exit") ? end_program : !strcmp(way, "kill") ? kill_program : become_another;
		go_deeper(depth);
	}
	return 0;
}

#endif
