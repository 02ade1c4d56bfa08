/* Allocates, forks, and allocates and frees in both processes. */
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);

int main(void)
{
	void *held[3], *more;
	int i;

	for (i = 0; i < 3; i++)
		cudaMalloc(&held[i], 1009);
	if (fork() == 0) {
		for (i = 0; i < 5; i++)
			cudaMalloc(&more, 307);
		cudaFree(held[1]);
		_exit(0);
	}
	wait(NULL);
	cudaFree(held[0]);
	return 0;
}
