// Allocates as ggml does, in two functions: weights() keeps its memory, scratch() frees it. Stops itself first.
#include <signal.h>
#include <stdlib.h>

#define KEPT __attribute__((noinline, noclone))

KEPT void *ggml_aligned_malloc(size_t size)
{
	return aligned_alloc(64, (size + 63) / 64 * 64);
}

KEPT void ggml_aligned_free(void *memory, size_t size)
{
	free(memory);
}

KEPT static void weights(size_t size)
{
	for (int i = 0; i < 3; i++)
		*(volatile char *)ggml_aligned_malloc(size) = 1;
}

KEPT static void scratch(size_t size)
{
	for (int i = 0; i < 5; i++)
		ggml_aligned_free(ggml_aligned_malloc(size), size);
	__asm__ volatile("");
}

int main(void)
{
	raise(SIGSTOP);
	weights(1009);
	scratch(2003);
	weights(4001);
	return 0;
}
