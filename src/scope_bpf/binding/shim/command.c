/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A command that waits, forked but not yet executed, until its tracing has begun. In C, so that nothing but the exec
 * happens in the child when it goes on: what is traced is the command's own doing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

extern char **environ;

/* In the child: wait for a byte, then become the command. No byte: the tracer is gone. */
static void become(const char *path, char *const argv[], int wait_fd)
{
	struct sigaction as_usual = {.sa_handler = SIG_DFL};
	sigset_t none;
	char byte;

	sigaction(SIGINT, &as_usual, NULL); /* Python's handlers do not survive the exec, what it ignores does */
	sigaction(SIGPIPE, &as_usual, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (read(wait_fd, &byte, 1) == 1)
		execve(path, argv, environ);
	dprintf(STDERR_FILENO, "scope: cannot run %s: %s\n", path, strerror(errno));
	_exit(127);
}

/* Forks the command; returns its pid. Writing a byte to *release_fd lets it go, closing it ends it. */
int scope_spawn_held(const char *path, char *const argv[], int *release_fd)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid = _Fork(); /* without the handlers of libraries, which are of no use before an exec */
	if (pid == 0) {
		close(ends[1]);
		become(path, argv, ends[0]);
	}
	close(ends[0]);
	if (pid < 0) {
		close(ends[1]);
		return -errno;
	}
	*release_fd = ends[1];
	return pid;
}
