// Known counts of calls about names and files: see test_file_ops.py. Usage: file_ops EMPTY_DIRECTORY
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIMES(count, call)                                                                                             \
	for (int n = 0; n < (count); n++)                                                                              \
	(void)(call)

static char buffer[512];

int main(int argc, char **argv)
{
	int directory, file, pipes[2];

	if (argc != 2 || chdir(argv[1]) || pipe(pipes))
		return 1;
	TIMES(2, syscall(SYS_mkdirat, AT_FDCWD, "below", 0755)); // the second one fails: EEXIST
	directory = open("below", O_DIRECTORY);
	file = openat(directory, "file", O_CREAT | O_RDWR, 0600);

	TIMES(11, syscall(SYS_newfstatat, AT_FDCWD, "below/file", buffer, 0));
	TIMES(7, syscall(SYS_newfstatat, directory, "absent", buffer, 0));
	TIMES(5, syscall(SYS_statx, directory, "file", 0, STATX_ALL, buffer));
	TIMES(3, syscall(SYS_statx, AT_FDCWD, "/dev/null/x", 0, STATX_ALL, buffer));
	TIMES(13, syscall(SYS_fstat, file, buffer));
	TIMES(4, syscall(SYS_newfstatat, file, "", buffer, AT_EMPTY_PATH));
	TIMES(6, syscall(SYS_fstat, pipes[0], buffer));
	TIMES(8, syscall(SYS_fstat, 777, buffer));
	TIMES(2, syscall(SYS_newfstatat, AT_FDCWD, 1L, buffer, 0));

	TIMES(17, syscall(SYS_truncate, "below/file", 1L));
	TIMES(19, syscall(SYS_ftruncate, file, 2L));
	TIMES(9, syscall(SYS_fsync, file));
	TIMES(10, syscall(SYS_fdatasync, file));
	TIMES(12, syscall(SYS_sync_file_range, file, 0L, 0L, 0));

	TIMES(2, syscall(SYS_linkat, directory, "file", AT_FDCWD, "linked", 0));
	TIMES(2, syscall(SYS_symlinkat, "anything", directory, "symbolic"));
	TIMES(2, syscall(SYS_renameat2, AT_FDCWD, "linked", directory, "renamed", 0));
	TIMES(2, syscall(SYS_unlinkat, directory, "renamed", 0));
	TIMES(2, syscall(SYS_unlinkat, AT_FDCWD, "below", AT_REMOVEDIR)); // ENOTEMPTY

#ifdef SYS_stat // those that arm64 lacks
	TIMES(21, syscall(SYS_stat, "below", buffer));
	TIMES(22, syscall(SYS_lstat, "below/symbolic", buffer));
	TIMES(2, syscall(SYS_mkdir, "old", 0700));
	TIMES(2, syscall(SYS_rename, "old", "new"));
	TIMES(2, syscall(SYS_rmdir, "new"));
	TIMES(2, syscall(SYS_link, "below/file", "one"));
	TIMES(2, syscall(SYS_symlink, "anything", "two"));
	TIMES(2, syscall(SYS_renameat, AT_FDCWD, "one", AT_FDCWD, "three"));
	TIMES(2, syscall(SYS_unlink, "three"));
#endif
	return 0;
}
