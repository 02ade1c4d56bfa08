// A ring of io_uring, by raw calls.
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH 64

static struct io_uring_params params;
static struct io_uring_sqe *entries;
static char *submissions, *completions;
static int ring;
static unsigned tail;

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
