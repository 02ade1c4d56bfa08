// Submits 7 NOPs to io_uring and a write of 1009 bytes to the file, and 5 more writes to Linux AIO.
// Usage: unseen FILE; status 2: this kernel has no io_uring for us
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOPS 7
#define WRITES 5

static char bytes[1009];

static int submit_to_aio(int fd)
{
	struct iocb writes[WRITES] = {0}, *all[WRITES];
	struct io_event ends[WRITES];
	aio_context_t context = 0;

	for (int n = 0; n < WRITES; n++) {
		writes[n].aio_lio_opcode = IOCB_CMD_PWRITE;
		writes[n].aio_fildes = fd;
		writes[n].aio_buf = (unsigned long)bytes;
		writes[n].aio_nbytes = sizeof(bytes);
		all[n] = &writes[n];
	}
	return !syscall(SYS_io_setup, WRITES, &context) && syscall(SYS_io_submit, context, WRITES, all) == WRITES &&
	       syscall(SYS_io_getevents, context, WRITES, WRITES, ends, 0) == WRITES;
}

int main(int argc, char **argv)
{
	struct io_uring_params params = {0};
	struct io_uring_sqe *entries;
	unsigned *array;
	char *ring;
	int fd;

	fd = syscall(SYS_io_uring_setup, 8, &params);
	if (fd < 0 || argc < 2)
		return 2;
	ring = mmap(0, params.sq_off.array + params.sq_entries * sizeof(*array), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
	entries = mmap(0, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		       IORING_OFF_SQES);
	if (ring == MAP_FAILED || entries == MAP_FAILED)
		return 2;
	array = (unsigned *)(ring + params.sq_off.array);
	for (unsigned n = 0; n <= NOPS; n++) {
		memset(&entries[n], 0, sizeof(entries[n]));
		entries[n].opcode = IORING_OP_NOP;
		array[n] = n;
	}
	entries[NOPS].opcode = IORING_OP_WRITE;
	entries[NOPS].fd = open(argv[1], O_CREAT | O_WRONLY, 0600);
	entries[NOPS].addr = (unsigned long)bytes;
	entries[NOPS].len = sizeof(bytes);
	__atomic_store_n((unsigned *)(ring + params.sq_off.tail), NOPS + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, fd, NOPS + 1, NOPS + 1, IORING_ENTER_GETEVENTS, 0, 0) != NOPS + 1)
		return 1;
	return !submit_to_aio(entries[NOPS].fd);
}
