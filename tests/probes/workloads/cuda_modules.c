/*
 * Opens libraries with CUDA-like functions, in many ways.
 * open FOLDER N: opens N libraries FOLDER/0.so and so on, keeps all open, allocates once by each; waits for a signal.
 * children LIBRARY N: N children, one after the other; each opens the library and allocates once.
 * copies LIBRARY FOLDER N: likewise, but each child opens its own copy, which is removed afterwards.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate_by(const char *path, int pause_us)
{
	void *library = dlopen(path, RTLD_NOW), *pointer;
	int (*allocate)(void **, size_t);

	if (!library)
		exit(1);
	*(void **)&allocate = dlsym(library, "cudaMalloc");
	usleep(pause_us); /* time for the tracer to attach */
	allocate(&pointer, 101);
}

static void in_a_child(const char *path, int pause_us)
{
	if (fork() == 0) {
		allocate_by(path, pause_us);
		_exit(0);
	}
	wait(NULL);
}

static void copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0700);
	struct stat found;

	fstat(in, &found);
	while (sendfile(out, in, NULL, found.st_size) > 0)
		;
	close(in);
	close(out);
}

int main(int argc, char **argv)
{
	char path[4096];
	int i;

	if (!strcmp(argv[1], "open")) {
		for (i = 0; i < atoi(argv[3]); i++) {
			snprintf(path, sizeof(path), "%s/%d.so", argv[2], i);
			allocate_by(path, 0);
		}
		pause();
	} else if (!strcmp(argv[1], "children"))
		for (i = 0; i < atoi(argv[3]); i++)
			in_a_child(argv[2], 0);
	else
		for (i = 0; i < atoi(argv[4]); i++) {
			snprintf(path, sizeof(path), "%s/%d.so", argv[3], i);
			copy(argv[2], path);
			in_a_child(path, 20000);
			unlink(path);
		}
	return 0;
}
