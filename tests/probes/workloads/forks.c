/* Makes COUNT children, one after another, which end at once. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int left = argc > 1 ? atoi(argv[1]) : 0; left; left--) {
		pid_t child = fork();

		if (child < 0)
			return 1;
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	return 0;
}
