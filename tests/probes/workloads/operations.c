// Known counts of opens, reads, writes and other operations by io_uring, with raw calls; see test_operations.py.
// Usage: operations DIRECTORY [sqpoll|skip|others]; status 2: this kernel has no io_uring for us
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/uio.h>

#include "ring.h"

#define OP_FTRUNCATE 55 // IORING_OP_FTRUNCATE; since Linux 6.9

static char bytes[100];

static void opens(int directory)
{
	static struct open_how how = {.flags = O_WRONLY | O_APPEND, .resolve = RESOLVE_BENEATH};

	for (int n = 0; n < 53; n++)
		entry(IORING_OP_OPENAT, AT_FDCWD, "made", 0640)->open_flags = O_CREAT | O_RDWR;
	run(53, 53);
	for (int n = 0; n < 31; n++) { // one that the kernel cannot do at once runs in a worker thread
		entry(IORING_OP_OPENAT, directory, "made", 0)->open_flags = O_RDONLY;
		entries[(tail - 1) % DEPTH].flags = n % 2 ? IOSQE_ASYNC : 0;
		run(1, 1);
	}
	for (int n = 0; n < 17; n++) {
		struct io_uring_sqe *made = entry(IORING_OP_OPENAT2, directory, "made", sizeof(how));

		made->off = (unsigned long)&how;
		run(1, 1);
	}
	for (int n = 0; n < 11; n++) {
		entry(IORING_OP_OPENAT, AT_FDCWD, "/nonsense/absent", 0);
		run(1, 1);
	}
	for (int n = 0; n < 7; n++) {
		entry(IORING_OP_OPENAT, AT_FDCWD, (char *)1, 0);
		run(1, 1);
	}
}

static void reads_and_writes(int directory)
{
	static struct iovec two[2] = {{bytes, 2}, {bytes, 3}};
	int file, pipes[2];

	if (pipe(pipes))
		return;
	entry(IORING_OP_OPENAT, AT_FDCWD, "used", 0600)->open_flags = O_CREAT | O_RDWR;
	file = run(1, 1);
	for (int n = 0; n < 43; n++)
		entry(IORING_OP_WRITE, file, bytes, 7);
	run(43, 43);
	for (int n = 0; n < 23; n++) {
		entry(IORING_OP_WRITEV, file, two, 2)->flags = n % 2 ? IOSQE_ASYNC : 0;
		run(1, 1);
	}
	for (int n = 0; n < 37; n++) {
		entry(IORING_OP_READ, file, bytes, 3);
		run(1, 1);
	}
	for (int n = 0; n < 19; n++) {
		entry(IORING_OP_READV, file, two, 2);
		run(1, 1);
	}
	for (int n = 0; n < 5; n++) {
		entry(IORING_OP_READ, directory, bytes, 1);
		run(1, 1);
	}
	for (int n = 0; n < 9; n++) { // from the file to a pipe
		struct io_uring_sqe *splice = entry(IORING_OP_SPLICE, pipes[1], 0, 6);

		splice->off = -1;
		splice->splice_fd_in = file;
		run(1, 1);
	}
	syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &file, 1);
	for (int n = 0; n < 13; n++) { // by its place in the registered files
		entry(IORING_OP_READ, 0, bytes, 2)->flags = IOSQE_FIXED_FILE;
		run(1, 1);
	}
	for (int n = 0; n < 3; n++) {
		struct io_uring_sqe *splice = entry(IORING_OP_SPLICE, pipes[1], 0, 4);

		splice->off = -1;
		splice->splice_fd_in = n; // only the first is registered
		splice->splice_flags = SPLICE_F_FD_IN_FIXED;
		run(1, 1);
	}
}

// An operation on names; `address` is the first one's, `second` that of the second one or of statx's buffer.
static int named(int operation, int fd, const void *address, int length, const void *second, int flags)
{
	struct io_uring_sqe *made = entry(operation, fd, address, length);

	made->off = (unsigned long)second;
	made->unlink_flags = flags;
	return run(1, 1);
}

static void others(int directory)
{
	static char status[512];
	int file = open("synced", O_CREAT | O_RDWR, 0600), pipes[2];

	pipe(pipes);
	for (int n = 0; n < 31; n++) {
		entry(IORING_OP_STATX, directory, "synced", 0)->off = (unsigned long)status;
		entries[(tail - 1) % DEPTH].flags = n % 2 ? IOSQE_ASYNC : 0;
		run(1, 1);
	}
	for (int n = 0; n < 13; n++)
		named(IORING_OP_STATX, AT_FDCWD, "/nonsense/absent", 0, status, 0);
	for (int n = 0; n < 7; n++)
		named(IORING_OP_STATX, AT_FDCWD, (char *)1, 0, status, 0);
	for (int n = 0; n < 5; n++)
		named(IORING_OP_STATX, file, "", 0, status, AT_EMPTY_PATH);
	for (int n = 0; n < 3; n++) {
		named(IORING_OP_MKDIRAT, directory, "folder", 0700, NULL, 0);
		named(IORING_OP_SYMLINKAT, directory, "anywhere", 0, "folder/symbolic", 0);
		named(IORING_OP_LINKAT, AT_FDCWD, "synced", directory, "folder/hard", 0);
		named(IORING_OP_RENAMEAT, directory, "folder/hard", AT_FDCWD, "moved", 0);
		named(IORING_OP_UNLINKAT, AT_FDCWD, "moved", 0, NULL, 0);
		named(IORING_OP_UNLINKAT, directory, "folder/symbolic", 0, NULL, 0);
		named(IORING_OP_UNLINKAT, directory, "folder", 0, NULL, AT_REMOVEDIR);
	}
	for (int n = 0; n < 17; n++) {
		entry(IORING_OP_FSYNC, file, NULL, 0);
		run(1, 1);
	}
	for (int n = 0; n < 11; n++) {
		entry(IORING_OP_FSYNC, file, NULL, 0)->fsync_flags = IORING_FSYNC_DATASYNC;
		run(1, 1);
	}
	for (int n = 0; n < 2; n++) {
		entry(IORING_OP_FSYNC, pipes[0], NULL, 0);
		run(1, 1);
		entry(IORING_OP_FSYNC, 999, NULL, 0);
		run(1, 1);
	}
	entry(IORING_OP_SYNC_FILE_RANGE, file, NULL, 0);
	run(1, 1);
	entry(OP_FTRUNCATE, file, NULL, 0)->off = 5;
	run(1, 1);
}

static void without_completions(void)
{
	for (int n = 0; n < 3; n++)
		entry(IORING_OP_OPENAT, AT_FDCWD, "made", 0)->flags = IOSQE_CQE_SKIP_SUCCESS;
	run(3, 0);
}

int main(int argc, char **argv)
{
	int directory;

	if (argc > 2 && !strcmp(argv[2], "sqpoll"))
		params.flags = IORING_SETUP_SQPOLL;
	if (argc < 2 || chdir(argv[1]) || !set_up())
		return 2;
	directory = open(".", O_RDONLY | O_DIRECTORY);
	opens(directory);
	reads_and_writes(directory);
	if (argc > 2 && !strcmp(argv[2], "skip"))
		without_completions();
	if (argc > 2 && !strcmp(argv[2], "others"))
		others(directory);
	return 0;
}
