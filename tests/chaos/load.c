/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A load of known counts. Calls lseek(-1, n, SEEK_SET) for n = 1, 2, ...: each fails, and its second argument numbers
 *it. Every EXEC_EVERY-th time it runs /bin/true, too. Bursts of BURST calls, then a pause, until SIGTERM; then it
 *prints how many calls it made, and how many programs it ran.
 *
 *	load PAUSE_US BURST EXEC_EVERY
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void end(int signal)
{
	over = signal;
}

static void run_true(void)
{
	pid_t child = fork();

	if (!child) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	if (child > 0)
		while (waitpid(child, NULL, 0) < 0)
			;
}

int main(int count, char **words)
{
	long pause = count > 1 ? atol(words[1]) : 1000;
	long burst = count > 2 ? atol(words[2]) : 10;
	long exec_every = count > 3 ? atol(words[3]) : 100;
	long calls = 0, programs = 0;
	char go;

	signal(SIGTERM, end);
	if (read(0, &go, 1) != 1)
		return 1;
	for (long bursts = 1; !over; bursts++) {
		for (long i = 0; i < burst; i++)
			lseek(-1, ++calls, SEEK_SET);
		if (bursts % exec_every == 0) {
			run_true();
			programs++;
		}
		usleep(pause);
	}
	printf("%ld %ld\n", calls, programs);
	return 0;
}
