// Known counts of 32-bit calls about files, memory and waits, without a C library: gcc -m32 -nostdlib -static; see
// test_compat.py. Usage: compat DIRECTORY, or compat DIRECTORY accepts; calls enter the kernel by int 0x80 and by the
// vDSO (sysenter or syscall) in turn.
#include <asm/unistd_32.h>
#include <linux/auxvec.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/in.h>
#include <linux/mman.h>
#include <linux/openat2.h>
#include <linux/poll.h>
#include <linux/time.h>
#include <linux/time_types.h>
#include <linux/uio.h>

#define AT_SYSINFO 32 // arch/x86/include/uapi/asm/auxvec.h

static unsigned long vdso;
static unsigned calls;
static char bytes[100];

static int call5(int number, int first, int second, int third, int fourth, int fifth)
{
	int result;

	if (vdso && calls++ % 2)
		__asm__ volatile("call *%7"
				 : "=a"(result)
				 : "a"(number), "b"(first), "c"(second), "d"(third), "S"(fourth), "D"(fifth), "m"(vdso)
				 : "memory");
	else
		__asm__ volatile("int $0x80"
				 : "=a"(result)
				 : "a"(number), "b"(first), "c"(second), "d"(third), "S"(fourth), "D"(fifth)
				 : "memory");
	return result;
}

// By int 0x80, which has the sixth argument in %ebp.
static int call6(int number, int first, int second, int third, int fourth, int fifth, int sixth)
{
	int result;

	__asm__ volatile("push %%ebp; mov %7, %%ebp; int $0x80; pop %%ebp"
			 : "=a"(result)
			 : "a"(number), "b"(first), "c"(second), "d"(third), "S"(fourth), "D"(fifth), "g"(sixth)
			 : "memory");
	return result;
}

static int call3(int number, int first, int second, int third)
{
	return call5(number, first, second, third, 0, 0);
}

static void opens(void)
{
	struct open_how how = {.flags = O_WRONLY | O_APPEND, .resolve = RESOLVE_BENEATH};
	int directory;

	for (int n = 0; n < 101; n++)
		call3(__NR_close, call3(__NR_open, (int)"opened", O_CREAT | O_RDWR, 0640), 0, 0);
	for (int n = 0; n < 13; n++)
		call3(__NR_close, call3(__NR_creat, (int)"created", 0600, 0), 0, 0);
	for (int n = 0; n < 11; n++)
		call3(__NR_open, (int)"absent", O_RDONLY, 0);
	directory = call3(__NR_open, (int)".", O_RDONLY | O_DIRECTORY, 0);
	for (int n = 0; n < 31; n++)
		call3(__NR_close, call5(__NR_openat, AT_FDCWD, (int)"opened", O_RDONLY, 0, 0), 0, 0);
	for (int n = 0; n < 17; n++)
		call3(__NR_close, call5(__NR_openat2, directory, (int)"created", (int)&how, sizeof(how), 0), 0, 0);
	call3(__NR_close, directory, 0, 0);
}

static void reads_and_writes(void)
{
	struct iovec two[2] = {{bytes, 2}, {bytes, 3}};
	int file = call3(__NR_open, (int)"used", O_CREAT | O_RDWR | O_LARGEFILE, 0600), directory;

	for (int n = 0; n < 61; n++)
		call3(__NR_write, file, (int)bytes, 7);
	for (int n = 0; n < 23; n++)
		call3(__NR_writev, file, (int)two, 2);
	for (int n = 0; n < 37; n++)
		call5(__NR_pwrite64, file, (int)bytes, 11, 0, 1); // 4 GiB from the begin
	for (int n = 0; n < 43; n++)
		call5(__NR_pwritev, file, (int)two, 2, 100, 0);
	for (int n = 0; n < 29; n++)
		call5(__NR_pread64, file, (int)bytes, 13, 1, 0);
	for (int n = 0; n < 41; n++)
		call5(__NR_preadv, file, (int)two, 2, 3, 0);
	call3(__NR_lseek, file, 0, 0);
	for (int n = 0; n < 53; n++)
		call3(__NR_read, file, (int)bytes, 3);
	for (int n = 0; n < 19; n++)
		call3(__NR_readv, file, (int)two, 2);
	directory = call3(__NR_open, (int)".", O_RDONLY, 0);
	for (int n = 0; n < 5; n++)
		call3(__NR_read, directory, (int)bytes, 1);
}

static void operations(void)
{
	int file = call3(__NR_open, (int)"cut", O_CREAT | O_RDWR, 0600);

	call3(__NR_mkdir, (int)"made", 0700, 0);
	for (int n = 0; n < 31; n++)
		call3(__NR_stat64, (int)"cut", (int)bytes, 0);
	for (int n = 0; n < 29; n++)
		call5(__NR_fstatat64, AT_FDCWD, (int)"none", (int)bytes, 0, 0);
	for (int n = 0; n < 23; n++)
		call3(__NR_fstat64, file, (int)bytes, 0);
	for (int n = 0; n < 19; n++)
		call3(__NR_truncate64, (int)"cut", 5, 0);
	for (int n = 0; n < 17; n++)
		call3(__NR_ftruncate64, file, 7, 0);
	for (int n = 0; n < 13; n++)
		call3(__NR_fsync, file, 0, 0);
	call3(__NR_rename, (int)"cut", (int)"made/moved", 0);
	call5(__NR_renameat2, AT_FDCWD, (int)"made/moved", AT_FDCWD, (int)"moved", 0);
	call3(__NR_unlink, (int)"moved", 0, 0);
	call3(__NR_unlinkat, AT_FDCWD, (int)"made", AT_REMOVEDIR);
}

#define PAGES(count) ((count)*4096)

static void mappings(void)
{
	int words[6] = {0, PAGES(3), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0};
	int end = call3(__NR_brk, 0, 0, 0);

	for (int n = 0; n < 17; n++) {
		int at = call6(__NR_mmap2, 0, PAGES(1009), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (n < 13)
			call3(__NR_munmap, at, PAGES(1009), 0);
	}
	for (int n = 0; n < 7; n++)
		call5(__NR_mremap, call3(__NR_mmap, (int)words, 0, 0), PAGES(3), PAGES(503), MREMAP_MAYMOVE, 0);
	for (int n = 1; n <= 5; n++)
		call3(__NR_brk, end + PAGES(11 * n), 0, 0);
	call6(__NR_mmap2, 0, PAGES(1), PROT_READ, MAP_PRIVATE, 999, 0);
}

static void futexes(void)
{
	static int words[4] = {2, 0, 4242}, own;
	int shortly[2] = {0, 1000000};
	struct __kernel_timespec shortly_64 = {.tv_nsec = 1000000};

	own = call3(__NR_gettid, 0, 0, 0);
	for (int n = 0; n < 17; n++)
		call5(__NR_futex, (int)&words[1], FUTEX_WAIT_PRIVATE, 0, (int)shortly, 0);
	for (int n = 0; n < 7; n++)
		call5(__NR_futex_time64, (int)&words[1], FUTEX_WAIT_PRIVATE, 0, (int)&shortly_64, 0);
	for (int n = 0; n < 23; n++)
		call5(__NR_futex, (int)&words[1], FUTEX_WAIT_PRIVATE, 9, 0, 0);
	for (int n = 0; n < 5; n++)
		call5(__NR_futex, (int)&words[0], FUTEX_WAIT_PRIVATE, 2, (int)shortly, 0);
	for (int n = 0; n < 3; n++)
		call5(__NR_futex, (int)&own, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0);
	for (int n = 0; n < 11; n++)
		call5(__NR_futex, (int)&words[1], FUTEX_WAKE_PRIVATE, 1, 0, 0); // no wait
}

static void waits(void)
{
	int ends[2], timer = call3(__NR_timerfd_create, 1, 0, 0), shortly[2] = {0, 5000000}; // CLOCK_MONOTONIC
	int due[4] = {0, 0, 0, 5000000};
	struct pollfd readable = {.events = POLLIN};

	call3(__NR_pipe, (int)ends, 0, 0);
	readable.fd = ends[0];
	for (int n = 0; n < 13; n++)
		call3(__NR_poll, (int)&readable, 1, 5);
	for (int n = 0; n < 11; n++)
		call3(__NR_nanosleep, (int)shortly, 0, 0);
	for (int n = 0; n < 7; n++) {
		call5(__NR_timerfd_settime, timer, 0, (int)due, 0, 0);
		call3(__NR_read, timer, (int)bytes, 8);
	}
}

#define AF_INET 2
#define SOCK_STREAM 1
#define SOCKETCALL_CONNECT 3 // SYS_CONNECT in include/uapi/linux/net.h
#define SOCKETCALL_ACCEPT 5
#define MSG_FASTOPEN 0x20000000

static int socket(void)
{
	return call3(__NR_socket, AF_INET, SOCK_STREAM, 0);
}

static void connects(void)
{
	// a broadcast address: no SYN is sent
	struct sockaddr_in nowhere = {AF_INET, __builtin_bswap16(1009), {__builtin_bswap32(0x7fffffff)}};
	int words[3] = {0, (int)&nowhere, sizeof(nowhere)};
	struct iovec data = {bytes, 1};
	int message[8] = {(int)&nowhere, sizeof(nowhere), (int)&data, 1}; // a struct mmsghdr

	for (int n = 0; n < 6; n++)
		call3(__NR_connect, socket(), (int)&nowhere, sizeof(nowhere));
	for (int n = 0; n < 4; n++) {
		words[0] = socket();
		call3(__NR_socketcall, SOCKETCALL_CONNECT, (int)words, 0);
	}
	nowhere.sin_port = __builtin_bswap16(1013);
	for (int n = 0; n < 3; n++)
		call6(__NR_sendto, socket(), (int)bytes, 1, MSG_FASTOPEN, (int)&nowhere, sizeof(nowhere));
	for (int n = 0; n < 2; n++)
		call5(__NR_sendmmsg, socket(), (int)message, 1, MSG_FASTOPEN, 0);
}

// Accepts connections that it never uses; a child closes them.
static void accepts(void)
{
	struct sockaddr_in here = {AF_INET, 0, {__builtin_bswap32(0x7f000001)}};
	int listener = socket(), size = sizeof(here), words[3] = {listener}, ends[2], client, accepted, child;

	call3(__NR_bind, listener, (int)&here, size);
	call3(__NR_listen, listener, 8, 0);
	call3(__NR_getsockname, listener, (int)&here, (int)&size);
	for (int n = 0; n < 10; n++) {
		client = socket();
		call3(__NR_connect, client, (int)&here, size);
		accepted = n < 7 ? call5(__NR_accept4, listener, 0, 0, 0, 0)
				 : call3(__NR_socketcall, SOCKETCALL_ACCEPT, (int)words, 0);
		call3(__NR_pipe, (int)ends, 0, 0);
		child = call3(__NR_fork, 0, 0, 0);
		if (!child) {
			call3(__NR_close, ends[1], 0, 0);
			call3(__NR_read, ends[0], (int)bytes, 1); // until the other end is closed
			call3(__NR_exit_group, 0, 0, 0);
		}
		call3(__NR_close, client, 0, 0);
		call3(__NR_close, accepted, 0, 0);
		call3(__NR_close, ends[1], 0, 0);
		call3(__NR_waitpid, child, 0, 0);
		call3(__NR_close, ends[0], 0, 0);
	}
	call3(__NR_exit_group, 0, 0, 0);
}

void begin(unsigned long *stack)
{
	unsigned long *arguments = stack + 1, *auxiliary = arguments + stack[0] + 1;

	while (*auxiliary++)
		; // the environment
	for (; auxiliary[0] != AT_NULL; auxiliary += 2)
		if (auxiliary[0] == AT_SYSINFO)
			vdso = auxiliary[1];
	call3(__NR_chdir, arguments[1], 0, 0);
	if (stack[0] > 2)
		accepts();
	opens();
	reads_and_writes();
	operations();
	mappings();
	futexes();
	waits();
	connects();
	call3(__NR_exit_group, 0, 0, 0);
}

__asm__(".globl _start\n_start: mov %esp, %eax\n and $-16, %esp\n sub $12, %esp\n push %eax\n call begin\n");
