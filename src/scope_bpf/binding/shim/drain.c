/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Copies records from the rings to buffers of rows, without Python. A separate thread does this as soon as the kernel
 * signals that enough records wait. It depends neither on the thread that takes the buffers, nor on Python's lock.
 *
 * The size of waiting buffers is limited. At the limit, reading stops: other records stay in the ring, and programs
 * count the losses if the ring is full. The shim itself only loses records if it has no memory, and counts them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "event.h"
#include "ring.h"
#include "shim.h"

#define FIRST_CAPACITY (64 << 10)
#define SIGNALS 16 /* per call of epoll_wait() */

struct scope_drain {
	pthread_t thread;
	bool running;
	int niceness;
	int epoll_fd; /* edge-triggered: a ring with unread records does not wake again */
	int stop_fd;
	size_t buffer_bytes; /* size at which a buffer is handed over */
	size_t limit;	     /* maximum size of waiting buffers */
	uint32_t streams;
	uint32_t *row_sizes;
	uint64_t *unkept; /* per stream: records lost for lack of memory, and damaged records */

	pthread_mutex_t reading; /* protects reading and filling buffers */
	struct scope_ring *rings;
	uint32_t ring_count;
	scope_rows **filling; /* per stream; NULL until its first event */

	pthread_mutex_t queue; /* protects the queue of waiting buffers */
	pthread_cond_t filled; /* a buffer waits, or a waiting take was woken */
	pthread_cond_t taken;  /* there is space again */
	scope_rows *first, **last;
	size_t queued; /* bytes */
	bool stopping, woken;
};

/* Makes room for `more` bytes after `used`. */
static int grow(void **data, size_t *capacity, size_t used, size_t more)
{
	size_t wanted = *capacity ? *capacity : FIRST_CAPACITY;
	void *grown;

	if (used + more <= *capacity)
		return 0;
	while (wanted < used + more)
		wanted *= 2;
	grown = realloc(*data, wanted);
	if (!grown)
		return -ENOMEM;
	*data = grown;
	*capacity = wanted;
	return 0;
}

static int append_tail(scope_rows *rows, const uint8_t *tail, size_t size)
{
	size_t starts_bytes = rows->starts_capacity * sizeof(uint64_t);
	bool is_first = !rows->tail_starts;

	if (grow((void **)&rows->tails, &rows->tails_capacity, rows->tail_bytes, size) ||
	    grow((void **)&rows->tail_starts, &starts_bytes, rows->count * sizeof(uint64_t), sizeof(uint64_t)))
		return -ENOMEM;
	rows->starts_capacity = starts_bytes / sizeof(uint64_t);
	if (is_first)
		memset(rows->tail_starts, 0, rows->count * sizeof(uint64_t)); /* earlier rows have no tails */
	rows->tail_starts[rows->count] = rows->tail_bytes;
	memcpy(rows->tails + rows->tail_bytes, tail, size);
	rows->tail_bytes += size;
	return 0;
}

/* Allocates space for a full buffer; only used pages take memory. */
static scope_rows *new_rows(const struct scope_drain *drain, uint32_t stream)
{
	scope_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		return NULL;
	rows->row_size = drain->row_sizes[stream];
	rows->rows = malloc(drain->buffer_bytes + rows->row_size);
	if (!rows->rows) {
		free(rows);
		return NULL;
	}
	return rows;
}

static void count_unkept(struct scope_drain *drain, uint32_t stream)
{
	__atomic_fetch_add(&drain->unkept[stream], 1, __ATOMIC_RELAXED);
}

static size_t bytes_of(const scope_rows *rows)
{
	return rows->count * rows->row_size + rows->tail_bytes;
}

/* Appends a stream's buffer to the queue of waiting buffers. */
static void hand_over(struct scope_drain *drain, uint32_t stream)
{
	scope_rows *rows = drain->filling[stream];

	if (!rows)
		return;
	drain->filling[stream] = NULL;
	rows->stream = stream;
	pthread_mutex_lock(&drain->queue);
	*drain->last = rows;
	drain->last = &rows->next;
	drain->queued += bytes_of(rows);
	pthread_cond_signal(&drain->filled);
	pthread_mutex_unlock(&drain->queue);
}

static bool has_room(const struct scope_drain *drain)
{
	return __atomic_load_n(&drain->queued, __ATOMIC_RELAXED) < drain->limit;
}

/* Copies a record. Returns not 0 if there is no memory. */
static int append(struct scope_drain *drain, const uint8_t *record, size_t size)
{
	scope_rows *rows;
	uint16_t stream;
	size_t fixed;

	memcpy(&stream, record + offsetof(struct scope_header, stream), sizeof(stream));
	if (stream >= drain->streams || size < drain->row_sizes[stream]) {
		count_unkept(drain, stream < drain->streams ? stream : 0);
		return 0;
	}
	rows = drain->filling[stream];
	if (!rows) {
		rows = drain->filling[stream] = new_rows(drain, stream);
		if (!rows)
			goto no_memory;
	}
	fixed = rows->row_size;
	if ((size > fixed || rows->tail_starts) && append_tail(rows, record + fixed, size - fixed))
		goto no_memory;
	memcpy(rows->rows + rows->count * fixed, record, fixed);
	rows->count++;
	if (bytes_of(rows) >= drain->buffer_bytes)
		hand_over(drain, stream);
	return 0;

no_memory:
	count_unkept(drain, stream);
	return -ENOMEM;
}

/* Reads the records in a ring. 1: no space for all of them. Negative: no memory; the loss is counted. */
static int read_ring(struct scope_drain *drain, struct scope_ring *ring)
{
	unsigned long end = scope_ring_end(ring), told = ring->at;
	const uint8_t *record;
	int result = 0;
	size_t size;

	while (!result && has_room(drain) && (record = scope_ring_next(ring, end, &size))) {
		result = append(drain, record, size);
		if (ring->at - told >= SCOPE_RING_TELL_BYTES) {
			scope_ring_tell(ring);
			told = ring->at;
		}
	}
	scope_ring_tell(ring);
	return result ? result : !has_room(drain);
}

/* Waits until reading may continue; false: the thread must end. */
static bool wait_for_room(struct scope_drain *drain)
{
	bool goes_on;

	pthread_mutex_lock(&drain->queue);
	while (!has_room(drain) && !drain->stopping)
		pthread_cond_wait(&drain->taken, &drain->queue);
	goes_on = !drain->stopping;
	pthread_mutex_unlock(&drain->queue);
	return goes_on;
}

static void *drain_thread(void *argument)
{
	struct scope_drain *drain = argument;
	struct epoll_event ready[SIGNALS];
	uint32_t i;
	int result;

	setpriority(PRIO_PROCESS, gettid(), drain->niceness); /* fails without CAP_SYS_NICE, which is no error */
	for (;;) {
		for (i = 0; i < drain->ring_count; i++) {
			do {
				if (!wait_for_room(drain))
					return NULL;
				pthread_mutex_lock(&drain->reading);
				result = read_ring(drain, &drain->rings[i]);
				pthread_mutex_unlock(&drain->reading);
			} while (result > 0);
		}
		epoll_wait(drain->epoll_fd, ready, SIGNALS, -1); /* after any event, all rings are read */
	}
}

static int watch(struct scope_drain *drain, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};

	return epoll_ctl(drain->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Returns NULL and sets errno if there is no memory or no descriptor. */
struct scope_drain *scope_drain_new(uint32_t streams, const uint32_t *row_sizes, size_t buffer_bytes, size_t limit)
{
	struct scope_drain *drain = calloc(1, sizeof(*drain));
	pthread_condattr_t monotonic;

	if (!drain)
		return NULL;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&drain->reading, NULL);
	pthread_mutex_init(&drain->queue, NULL);
	pthread_cond_init(&drain->filled, &monotonic);
	pthread_cond_init(&drain->taken, NULL);
	pthread_condattr_destroy(&monotonic);
	drain->streams = streams;
	drain->buffer_bytes = buffer_bytes;
	drain->limit = limit;
	drain->last = &drain->first;
	drain->filling = calloc(streams, sizeof(*drain->filling));
	drain->row_sizes = calloc(streams, sizeof(*drain->row_sizes));
	drain->unkept = calloc(streams, sizeof(*drain->unkept));
	drain->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	drain->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (drain->filling && drain->row_sizes && drain->unkept && !watch(drain, drain->stop_fd)) {
		memcpy(drain->row_sizes, row_sizes, streams * sizeof(*row_sizes));
		return drain;
	}
	scope_drain_free(drain);
	return NULL;
}

/* Must be called before the thread is started. */
int scope_drain_add_ring(struct scope_drain *drain, int ring_fd)
{
	struct scope_ring *rings = reallocarray(drain->rings, drain->ring_count + 1, sizeof(*rings));
	int error;

	if (!rings)
		return -ENOMEM;
	drain->rings = rings;
	error = scope_ring_map(&rings[drain->ring_count], ring_fd);
	if (error)
		return error;
	drain->ring_count++;
	return watch(drain, ring_fd);
}

/* Starts the thread that reads the rings, with this niceness if allowed. It blocks all signals. */
int scope_drain_start(struct scope_drain *drain, int niceness)
{
	sigset_t all, before;
	int error;

	drain->niceness = niceness;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&drain->thread, NULL, drain_thread, drain);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -error;
	drain->running = true;
	pthread_setname_np(drain->thread, "scope-drain");
	return 0;
}

/* Ends the thread; after that, only scope_drain_take reads the rings. May be called again. */
void scope_drain_stop(struct scope_drain *drain)
{
	uint64_t one = 1;

	if (!drain->running)
		return;
	pthread_mutex_lock(&drain->queue);
	drain->stopping = true;
	pthread_cond_signal(&drain->taken);
	pthread_mutex_unlock(&drain->queue);
	if (write(drain->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(drain->thread, NULL);
	drain->running = false;
}

static struct timespec after_ms(int ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000L;
	if (end.tv_nsec >= 1000000000L) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000L;
	}
	return end;
}

/* Reads all records and hands over all buffers, even if not full, up to the limit. */
static void read_now(struct scope_drain *drain)
{
	uint32_t i;

	pthread_mutex_lock(&drain->reading);
	for (i = 0; i < drain->ring_count && has_room(drain); i++)
		read_ring(drain, &drain->rings[i]);
	for (i = 0; i < drain->streams; i++)
		hand_over(drain, i);
	pthread_mutex_unlock(&drain->reading);
}

/*
 * Returns the next buffer, which the caller then owns. Waits for a full buffer until the timeout or a wakeup. If there
 * is none, reads the rings, since programs signal only when enough bytes wait. NULL: the rings are empty.
 */
scope_rows *scope_drain_take(struct scope_drain *drain, int timeout_ms)
{
	struct timespec end = after_ms(timeout_ms);
	scope_rows *rows;

	pthread_mutex_lock(&drain->queue);
	while (!drain->first && !drain->woken)
		if (pthread_cond_timedwait(&drain->filled, &drain->queue, &end))
			break;
	if (!drain->first) {
		pthread_mutex_unlock(&drain->queue);
		read_now(drain);
		pthread_mutex_lock(&drain->queue);
	}
	drain->woken = false;
	rows = drain->first;
	if (rows) {
		drain->first = rows->next;
		if (!drain->first)
			drain->last = &drain->first;
		drain->queued -= bytes_of(rows);
		pthread_cond_signal(&drain->taken);
	}
	pthread_mutex_unlock(&drain->queue);
	return rows;
}

/* Ends the current take, or the next one, early. For any thread. */
void scope_drain_wake(struct scope_drain *drain)
{
	pthread_mutex_lock(&drain->queue);
	drain->woken = true;
	pthread_cond_signal(&drain->filled);
	pthread_mutex_unlock(&drain->queue);
}

/* Records of a stream that could not be kept; records of unknown streams count for the first. For any thread. */
uint64_t scope_drain_unkept(const struct scope_drain *drain, uint32_t stream)
{
	return __atomic_load_n(&drain->unkept[stream], __ATOMIC_RELAXED);
}

void scope_rows_free(scope_rows *rows)
{
	free(rows->rows);
	free(rows->tails);
	free(rows->tail_starts);
	free(rows);
}

void scope_drain_free(struct scope_drain *drain)
{
	scope_rows *rows;
	uint32_t i;

	scope_drain_stop(drain);
	for (i = 0; i < drain->ring_count; i++)
		scope_ring_unmap(&drain->rings[i]);
	free(drain->rings);
	for (i = 0; drain->filling && i < drain->streams; i++)
		hand_over(drain, i);
	while ((rows = drain->first)) {
		drain->first = rows->next;
		scope_rows_free(rows);
	}
	if (drain->stop_fd >= 0)
		close(drain->stop_fd);
	if (drain->epoll_fd >= 0)
		close(drain->epoll_fd);
	pthread_cond_destroy(&drain->taken);
	pthread_cond_destroy(&drain->filled);
	pthread_mutex_destroy(&drain->queue);
	pthread_mutex_destroy(&drain->reading);
	free(drain->filling);
	free(drain->row_sizes);
	free(drain->unkept);
	free(drain);
}
