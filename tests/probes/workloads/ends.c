/* Starts argv[1] processes of two threads each, which end at the same moment, on two CPUs if there are two. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int ready;

static void *end(void *unused)
{
	(void)unused;
	__sync_fetch_and_add(&ready, 1);
	while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < 2)
		;
	syscall(SYS_exit, 0);
	return NULL;
}

int main(int count, char **arguments)
{
	int processes = count > 1 ? atoi(arguments[1]) : 0;
	pthread_t other;

	while (processes-- > 0) {
		if (fork() == 0) {
			pthread_create(&other, NULL, end, NULL);
			end(NULL);
		}
		wait(NULL);
	}
	return 0;
}
