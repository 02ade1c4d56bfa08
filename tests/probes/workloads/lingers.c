/* A second thread ends the process with status 3 after 0.2 s. The main thread waits, or has ended (with argv[1]). */
#include <pthread.h>
#include <unistd.h>

static void *end(void *unused)
{
	usleep(200000);
	_exit(3);
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t other;

	(void)arguments;
	pthread_create(&other, NULL, end, NULL);
	if (count > 1)
		pthread_exit(NULL);
	pause();
	return 0;
}
