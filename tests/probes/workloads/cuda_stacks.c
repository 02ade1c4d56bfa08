/*
 * Allocates where the caller is hard to find. All functions but the stubs keep frame pointers.
 * deep N: N nested calls. stub, stubs, linked: by a stub, by a stub that a stub calls, by a stub in a library.
 * behind: by a stub placed behind its caller in the code, not before it.
 * open LIBRARY...: by the function of each library, which is closed before the next is opened.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STUB __attribute__((noinline, optimize("omit-frame-pointer")))
#define AFTER __asm__ volatile("") /* keeps the call before it from being a tail call */

int cudaMalloc(void **pointer, size_t bytes);

#ifdef LIBRARY

STUB int linked_stub(size_t bytes)
{
	void *pointer;
	int result = cudaMalloc(&pointer, bytes);

	AFTER;
	return result;
}

int NAME(void)
{
	void *pointer;
	int result = cudaMalloc(&pointer, 307);

	AFTER;
	return result;
}

int (*const allocate)(void) = NAME;

#else

int linked_stub(size_t bytes);

STUB static int inner_stub(size_t bytes)
{
	void *pointers[5];
	int result = cudaMalloc(&pointers[2], bytes);

	AFTER;
	return result;
}

STUB static int outer_stub(size_t bytes)
{
	int result = inner_stub(bytes);

	AFTER;
	return result;
}

__attribute__((noinline)) static int by_stub(void)
{
	volatile size_t before[3] = {101, 103, 107};
	int result = inner_stub(before[0]);

	AFTER;
	return result;
}

__attribute__((noinline)) static int by_stubs(void)
{
	int result = outer_stub(101);

	AFTER;
	return result;
}

STUB __attribute__((section(".text.behind"))) static int stub_behind(size_t bytes);

__attribute__((noinline)) static int before_stub(void)
{
	int result = stub_behind(103);

	AFTER;
	return result;
}

STUB static int stub_behind(size_t bytes)
{
	void *pointer;
	int result = cudaMalloc(&pointer, bytes);

	AFTER;
	return result;
}

__attribute__((noinline)) static int by_link(void)
{
	int result = linked_stub(101);

	AFTER;
	return result;
}

__attribute__((noinline)) static int deep(int left)
{
	void *pointer;
	int result = left ? deep(left - 1) : cudaMalloc(&pointer, 211);

	AFTER;
	return result;
}

static void open_and_close(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*const *allocate)(void) = dlsym(library, "allocate");

	printf("%p\n", (void *)*allocate);
	(*allocate)();
	dlclose(library);
}

int main(int argc, char **argv)
{
	int i;

	if (!strcmp(argv[1], "deep"))
		deep(atoi(argv[2]));
	else if (!strcmp(argv[1], "stub"))
		by_stub();
	else if (!strcmp(argv[1], "stubs"))
		by_stubs();
	else if (!strcmp(argv[1], "behind"))
		before_stub();
	else if (!strcmp(argv[1], "linked"))
		by_link();
	else
		for (i = 2; i < argc; i++)
			open_and_close(argv[i]);
	return 0;
}

#endif
