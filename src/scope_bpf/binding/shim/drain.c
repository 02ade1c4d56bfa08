/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From the rings to one buffer per stream, without Python. A drain belongs to one thread, which polls and takes.
 *
 * With full buffers the reading stops: what is not read yet stays in the ring, and a ring that overflows counts its
 * losses. The shim itself loses nothing but what it has no memory for, which it counts.
 */
#include <errno.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "event.h"
#include "ring.h"
#include "shim.h"

#define FIRST_CAPACITY (64 << 10)

struct scope_drain {
	struct scope_ring *rings;
	uint32_t ring_count;
	uint32_t next_ring; /* where reading goes on */
	int epoll_fd;	    /* edge-triggered: a ring that merely holds something wakes nobody */
	int wake_fd;
	size_t limit;	 /* bytes, all streams together */
	size_t buffered; /* bytes */
	uint32_t streams;
	scope_rows **filling; /* per stream; NULL until its first event */
	uint32_t *row_sizes;
	uint64_t *unkept; /* per stream: records there was no memory for, and damaged ones */
};

/* Makes room for `more` bytes behind `used`. */
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

	if (grow((void **)&rows->tails, &rows->tails_capacity, rows->tail_bytes, size) ||
	    grow((void **)&rows->tail_starts, &starts_bytes, rows->count * sizeof(uint64_t), sizeof(uint64_t)))
		return -ENOMEM;
	rows->starts_capacity = starts_bytes / sizeof(uint64_t);
	rows->tail_starts[rows->count] = rows->tail_bytes;
	memcpy(rows->tails + rows->tail_bytes, tail, size);
	rows->tail_bytes += size;
	return 0;
}

/* Copies a record. Not 0: there is no memory. */
static int append(struct scope_drain *drain, const uint8_t *record, size_t size)
{
	scope_rows *rows;
	uint16_t stream;
	size_t fixed;

	memcpy(&stream, record + offsetof(struct scope_header, stream), sizeof(stream));
	if (stream >= drain->streams || size < drain->row_sizes[stream]) {
		drain->unkept[stream < drain->streams ? stream : 0]++;
		return 0;
	}
	rows = drain->filling[stream];
	if (!rows) {
		rows = drain->filling[stream] = calloc(1, sizeof(*rows));
		if (!rows)
			goto no_memory;
		rows->row_size = drain->row_sizes[stream];
	}
	fixed = rows->row_size;
	if (grow((void **)&rows->rows, &rows->rows_capacity, rows->count * fixed, fixed))
		goto no_memory;
	if ((size > fixed || rows->tail_starts) && append_tail(rows, record + fixed, size - fixed))
		goto no_memory;
	memcpy(rows->rows + rows->count * fixed, record, fixed);
	rows->count++;
	drain->buffered += size;
	return 0;

no_memory:
	drain->unkept[stream]++;
	return -ENOMEM;
}

/* Reads what a ring holds now, as far as the buffers have room. */
static int read_ring(struct scope_drain *drain, struct scope_ring *ring)
{
	unsigned long end = scope_ring_end(ring), told = ring->at;
	const uint8_t *record;
	int result = 0;
	size_t size;

	while (!result && drain->buffered < drain->limit && (record = scope_ring_next(ring, end, &size))) {
		result = append(drain, record, size);
		if (ring->at - told >= SCOPE_RING_TELL_BYTES) {
			scope_ring_tell(ring);
			told = ring->at;
		}
	}
	scope_ring_tell(ring);
	return result;
}

/* `means`: which descriptor the event is to stand for. */
static int watch(struct scope_drain *drain, int fd, int means)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = means};

	return epoll_ctl(drain->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

struct scope_drain *scope_drain_new(uint32_t streams, const uint32_t *row_sizes, size_t limit_bytes)
{
	struct scope_drain *drain = calloc(1, sizeof(*drain));

	if (!drain)
		return NULL;
	drain->streams = streams;
	drain->limit = limit_bytes;
	drain->filling = calloc(streams, sizeof(*drain->filling));
	drain->row_sizes = calloc(streams, sizeof(*drain->row_sizes));
	drain->unkept = calloc(streams, sizeof(*drain->unkept));
	drain->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	drain->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (drain->filling && drain->row_sizes && drain->unkept && !watch(drain, drain->wake_fd, drain->wake_fd)) {
		memcpy(drain->row_sizes, row_sizes, streams * sizeof(*row_sizes));
		return drain;
	}
	scope_drain_free(drain);
	return NULL;
}

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
	return watch(drain, ring_fd, ring_fd);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* What the rings hold now, as far as the buffers have room, each ring in its turn. 1: stopped with full buffers. */
int scope_drain_rest(struct scope_drain *drain)
{
	uint32_t read;
	int error;

	for (read = 0; read < drain->ring_count; read++) {
		if (drain->buffered >= drain->limit)
			return 1;
		error = read_ring(drain, &drain->rings[drain->next_ring]);
		if (error)
			return error;
		drain->next_ring = (drain->next_ring + 1) % drain->ring_count;
	}
	return drain->buffered >= drain->limit;
}

/*
 * Fills the buffers until they are full, the time is over or the drain is woken. What waits is read before the first
 * wait, since nothing signals it again; and at the end of the time, since programs signal only once enough bytes wait.
 */
int scope_drain_poll(struct scope_drain *drain, int timeout_ms)
{
	int64_t end_ms = now_ms() + timeout_ms, left_ms;
	struct epoll_event ready[16];
	int i, count, full;

	for (;;) {
		full = scope_drain_rest(drain);
		left_ms = end_ms - now_ms();
		if (full || left_ms <= 0)
			return full;
		count = epoll_wait(drain->epoll_fd, ready, 16, left_ms);
		if (count < 0 && errno != EINTR)
			return -errno;
		for (i = 0; i < count; i++)
			if (ready[i].data.fd == drain->wake_fd)
				return scope_drain_rest(drain);
	}
}

/* Ends a poll under way, or the next one, early. From any thread. */
void scope_drain_wake(struct scope_drain *drain)
{
	uint64_t one = 1;

	if (write(drain->wake_fd, &one, sizeof(one)) < 0)
		return; /* already woken */
}

/* Polls end early, too, when there is something to read from this descriptor. */
int scope_drain_wake_on(struct scope_drain *drain, int fd)
{
	return watch(drain, fd, drain->wake_fd);
}

/* Records of a stream that could not be kept; those of no known stream count as the first one's. */
uint64_t scope_drain_unkept(const struct scope_drain *drain, uint32_t stream)
{
	return drain->unkept[stream];
}

/* The events of a stream since the last take, now the caller's; NULL if there are none. */
scope_rows *scope_drain_take(struct scope_drain *drain, uint32_t stream)
{
	scope_rows *rows = drain->filling[stream];

	if (!rows || !rows->count)
		return NULL;
	drain->filling[stream] = NULL;
	drain->buffered -= rows->count * rows->row_size + rows->tail_bytes;
	return rows;
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
	uint32_t i;

	for (i = 0; i < drain->ring_count; i++)
		scope_ring_unmap(&drain->rings[i]);
	free(drain->rings);
	for (i = 0; drain->filling && i < drain->streams; i++)
		if (drain->filling[i])
			scope_rows_free(drain->filling[i]);
	if (drain->wake_fd >= 0)
		close(drain->wake_fd);
	if (drain->epoll_fd >= 0)
		close(drain->epoll_fd);
	free(drain->filling);
	free(drain->row_sizes);
	free(drain->unkept);
	free(drain);
}
