/* Sleeps 61 times for 20 ms, called by functions with frame pointers: main(), outer() and inner(). */
#include <time.h>

__attribute__((noinline)) void inner(void)
{
	const struct timespec length = {.tv_nsec = 20000000};

	nanosleep(&length, NULL);
	__asm__ volatile("");
}

__attribute__((noinline)) void outer(void)
{
	inner();
	__asm__ volatile("");
}

int main(void)
{
	for (int i = 0; i < 61; i++)
		outer();
	return 0;
}
