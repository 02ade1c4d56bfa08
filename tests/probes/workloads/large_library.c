/* TIMES LARGE: calls two functions TIMES times, as fast as it can, while a thread opens the library LARGE. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

extern int cudaMalloc(void **pointer, size_t bytes);
extern int cudaFree(void *pointer);

static void *open_large(void *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*set_device)(int) = library ? dlsym(library, "cudaSetDevice") : NULL;

	if (!set_device)
		exit(1);
	for (int n = 0; n < 1000; n++) { /* some of these after the tracer has attached */
		set_device(7);
		usleep(5000);
	}
	return NULL;
}

int main(int count, char **words)
{
	long times = atol(words[1]);
	pthread_t opener;
	void *pointer;

	pthread_create(&opener, NULL, open_large, words[2]);
	for (long n = 0; n < times; n++) {
		cudaMalloc(&pointer, 64);
		cudaFree(pointer);
	}
	pthread_join(opener, NULL);
	return 0;
}
