/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From the rings to one buffer per stream, without Python. A drain belongs to one thread, which polls and takes.
 *
 * libbpf counts a record as consumed even when the callback refuses it, so the callback copies first and then, if the
 * buffers are full, stops the loop: what is not read yet stays in the ring, and a ring that overflows counts its
 * losses. The shim itself loses nothing but what it has no memory for, which it counts.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "event.h"
#include "shim.h"

#define FIRST_CAPACITY (64 << 10)

struct scope_drain {
	struct ring_buffer *rings;
	int epoll_fd; /* edge-triggered, unlike libbpf's own: a ring that merely holds something wakes nobody */
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

static int append(void *context, void *record, size_t size)
{
	struct scope_drain *drain = context;
	const uint8_t *bytes = record;
	scope_rows *rows;
	uint16_t stream;
	size_t fixed;

	memcpy(&stream, bytes + offsetof(struct scope_header, stream), sizeof(stream));
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
	if ((size > fixed || rows->tail_starts) && append_tail(rows, bytes + fixed, size - fixed))
		goto no_memory;
	memcpy(rows->rows + rows->count * fixed, bytes, fixed);
	rows->count++;
	drain->buffered += size;
	return drain->buffered >= drain->limit ? -ENOBUFS : 0;

no_memory:
	drain->unkept[stream]++;
	return -ENOMEM;
}

static int watch(struct scope_drain *drain, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};

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
	if (drain->filling && drain->row_sizes && drain->unkept && !watch(drain, drain->wake_fd)) {
		memcpy(drain->row_sizes, row_sizes, streams * sizeof(*row_sizes));
		return drain;
	}
	scope_drain_free(drain);
	return NULL;
}

int scope_drain_add_ring(struct scope_drain *drain, int ring_fd)
{
	int result;

	if (drain->rings) {
		result = ring_buffer__add(drain->rings, ring_fd, append, drain);
		return result ? result : watch(drain, ring_fd);
	}
	drain->rings = ring_buffer__new(ring_fd, append, drain, NULL);
	return drain->rings ? watch(drain, ring_fd) : -errno;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* What the rings hold now, as far as the buffers have room. 1: stopped with full buffers. */
int scope_drain_rest(struct scope_drain *drain)
{
	int result;

	if (drain->buffered >= drain->limit)
		return 1;
	result = ring_buffer__consume(drain->rings);
	if (result == -ENOBUFS)
		return 1;
	return result < 0 ? result : 0;
}

/*
 * Fills the buffers until they are full, the time is over or the drain is woken. Programs wake a reader only once
 * enough bytes wait, so the rings are read at the end of the time whatever was signalled.
 */
int scope_drain_poll(struct scope_drain *drain, int timeout_ms)
{
	int64_t end_ms = now_ms() + timeout_ms, left_ms = timeout_ms;
	struct epoll_event ready[16];

	for (;;) {
		int i, count, full;

		count = epoll_wait(drain->epoll_fd, ready, 16, left_ms > 0 ? (int)left_ms : 0);
		if (count < 0 && errno != EINTR)
			return -errno;
		full = scope_drain_rest(drain);
		left_ms = end_ms - now_ms();
		if (full || left_ms <= 0)
			return full;
		for (i = 0; i < count; i++)
			if (ready[i].data.fd == drain->wake_fd)
				return 0;
	}
}

/* Ends a poll under way, or the next one, early. From any thread. */
void scope_drain_wake(struct scope_drain *drain)
{
	uint64_t one = 1;

	if (write(drain->wake_fd, &one, sizeof(one)) < 0)
		return; /* already woken */
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

	ring_buffer__free(drain->rings);
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
