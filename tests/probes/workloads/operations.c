// Known counts of opens, reads and writes by io_uring, with raw calls; see test_operations.py.
// Usage: operations DIRECTORY [sqpoll]; status 2: this kernel has no io_uring for us
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define DEPTH 64

static struct io_uring_params params;
static struct io_uring_sqe *entries;
static char *submissions, *completions;
static int ring;
static unsigned tail;
static char bytes[100];

#define AT(base, offset) ((unsigned *)((base) + (offset)))

static int set_up(void)
{
	params.sq_thread_idle = 2000;
	ring = syscall(SYS_io_uring_setup, DEPTH, &params);
	if (ring < 0)
		return 0;
	submissions = mmap(0, params.sq_off.array + params.sq_entries * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED,
			   ring, IORING_OFF_SQ_RING);
	completions = mmap(0, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
			   PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	entries = mmap(0, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		       IORING_OFF_SQES);
	return submissions != MAP_FAILED && completions != MAP_FAILED && entries != MAP_FAILED;
}

static struct io_uring_sqe *entry(int operation, int fd, const void *address, unsigned length)
{
	struct io_uring_sqe *made = &entries[tail % DEPTH];

	memset(made, 0, sizeof(*made));
	made->opcode = operation;
	made->fd = fd;
	made->addr = (unsigned long)address;
	made->len = length;
	AT(submissions, params.sq_off.array)[tail % DEPTH] = tail % DEPTH;
	tail++;
	return made;
}

// Submits what was made and waits for as many completions, which it takes; the last one's result.
static int run(unsigned count, unsigned awaited)
{
	unsigned *head = AT(completions, params.cq_off.head), mask = *AT(completions, params.cq_off.ring_mask);
	struct io_uring_cqe *results = (struct io_uring_cqe *)(completions + params.cq_off.cqes);
	int result = 0;

	__atomic_store_n(AT(submissions, params.sq_off.tail), tail, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, count, awaited,
		IORING_ENTER_GETEVENTS | (params.flags & IORING_SETUP_SQPOLL ? IORING_ENTER_SQ_WAKEUP : 0), 0, 0);
	while (awaited && *head != __atomic_load_n(AT(completions, params.cq_off.tail), __ATOMIC_ACQUIRE)) {
		result = results[*head & mask].res;
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	return result;
}

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
	int file;

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
	syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &file, 1);
	for (int n = 0; n < 13; n++) { // by its place in the registered files
		entry(IORING_OP_READ, 0, bytes, 2)->flags = IOSQE_FIXED_FILE;
		run(1, 1);
	}
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
	return 0;
}
