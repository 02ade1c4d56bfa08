/* Each of 7 threads makes its own prime number of calls with its thread id as argument; prints thread id and count. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int counts[] = {1009, 2003, 3001, 4001, 5003, 6007, 7001};
static pthread_barrier_t together;

static void *work(void *argument)
{
	int count = counts[(intptr_t)argument], i;
	long tid = syscall(SYS_gettid);

	pthread_barrier_wait(&together);
	for (i = 0; i < count; i++)
		syscall(SYS_getpgid, tid); /* returns the process group of the thread named */
	printf("%ld %d\n", tid, count);
	return NULL;
}

int main(void)
{
	pthread_t threads[7];
	intptr_t i;

	pthread_barrier_init(&together, NULL, 7);
	for (i = 0; i < 7; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (i = 0; i < 7; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
