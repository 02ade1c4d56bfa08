/* PATH TIMES: opens a runtime by its path, waits like a program that loads its model, and allocates TIMES times. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW), *pointer;
	int (*allocate)(void **, size_t);
	int times = atoi(argv[2]);

	if (!library) {
		puts(dlerror());
		return 1;
	}
	*(void **)&allocate = dlsym(library, "cudaMalloc");
	usleep(500000);
	while (times--)
		allocate(&pointer, 211);
	return 0;
}
