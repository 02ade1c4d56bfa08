/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hold DESCRIPTOR PATH ARGUMENT...: starts a process that waits, and then executes the command PATH.
 *
 * The kernel's counters of a process, such as its peak memory, survive an exec; and a forked process counts its
 * parent's mappings. So the command is forked from this small program, and not from the tracer; CLONE_PARENT still
 * makes it a child of the tracer. There is no C library, so only this code runs, and after the release only the exec.
 *
 * DESCRIPTOR is a socket. The waiting process sends its pid (four bytes). One byte releases it; end of file ends it. If
 * the exec fails, it sends the error number (four bytes) and exits like a shell: with 127 if the command does not
 * exist, with 126 if it cannot be run.
 */
#include <asm/signal.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/prctl.h>
#include <linux/sched.h>

/* On entry, the stack has the arguments of execve(). The ABI requires it to be aligned before a call. */
#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n\tmov x0, sp\n\tbl start\n");
#endif

static long call(long number, long first, long second, long third, long fourth)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = fourth;
	register long r8 __asm__("r8") = 0; /* clone's fifth argument; the other calls have fewer */
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = first;
	register long x1 __asm__("x1") = second;
	register long x2 __asm__("x2") = third;
	register long x3 __asm__("x3") = fourth;
	register long x4 __asm__("x4") = 0;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
#endif
}

_Noreturn static void leave(int status)
{
	for (;;)
		call(__NR_exit_group, status, 0, 0, 0);
}

static int number(const char *digits)
{
	int value = 0;

	while (*digits)
		value = 10 * value + (*digits++ - '0');
	return value;
}

static const char *basename(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

/* glibc's posix_spawn() leaves its two internal signals ignored (nptl, SIGCANCEL and SIGSETXID). */
static void give_back_signals(void)
{
	const long as_usual[4] = {0}; /* SIG_DFL; struct sigaction is handler, flags, restorer and mask */

	for (int signal = SIGRTMIN; signal < SIGRTMIN + 2; signal++)
		call(__NR_rt_sigaction, signal, (long)as_usual, 0, sizeof(as_usual[3]));
}

/* Runs in the waiting process. It has the command's name from the start, as after an exec. */
_Noreturn static void wait_and_become(int socket, const char *path, char **argv, char **environment)
{
	char byte;
	int told;

	call(__NR_prctl, PR_SET_NAME, (long)basename(path), 0, 0);
	told = call(__NR_getpid, 0, 0, 0, 0);
	call(__NR_write, socket, (long)&told, sizeof(told), 0);
	if (call(__NR_read, socket, (long)&byte, 1, 0) != 1)
		leave(0);
	told = -call(__NR_execve, (long)path, (long)argv, (long)environment, 0);
	call(__NR_write, socket, (long)&told, sizeof(told), 0);
	leave(told == ENOENT ? 127 : 126);
}

_Noreturn void start(long *stack)
{
	char **argv = (char **)(stack + 1), **environment = argv + stack[0] + 1;
	int socket = number(argv[1]);
	long pid;

	give_back_signals();
	call(__NR_fcntl, socket, F_SETFD, FD_CLOEXEC, 0);
	pid = call(__NR_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0);
	if (!pid)
		wait_and_become(socket, argv[2], argv + 3, environment);
	leave(pid < 0 ? -pid : 0);
}
