/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads a BPF ring buffer. Its layout is in kernel/bpf/ringbuf.c: a page with the consumer's position, which we write;
 * a page with the producer's position; then the data, mapped twice in a row, so that no record is split.
 *
 * libbpf's reader updates its position after every record. The producer reads the same cache line for every record, so
 * both wait for each other. This reader updates its position only once per SCOPE_RING_TELL_BYTES.
 */
#ifndef SCOPE_RING_H
#define SCOPE_RING_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#define SCOPE_RING_TELL_BYTES (64 << 10)
#define SCOPE_RING_MOST_RECORD (64 << 10) /* size of the second mapping: programs write records of at most 32 KiB */

struct scope_ring {
	unsigned long *consumer; /* bytes consumed since the ring was created; written by us */
	const unsigned long *producer;
	const uint8_t *data;
	size_t size; /* bytes, a power of two */
	unsigned long at;
};

int scope_ring_map(struct scope_ring *ring, int fd);
void scope_ring_unmap(struct scope_ring *ring);

static inline unsigned long scope_ring_end(const struct scope_ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
}

static inline void scope_ring_tell(struct scope_ring *ring)
{
	__atomic_store_n(ring->consumer, ring->at, __ATOMIC_RELEASE);
}

/* Returns the next complete record before `end` and steps over it; NULL: none. Valid until the position is updated. */
static inline const uint8_t *scope_ring_next(struct scope_ring *ring, unsigned long end, size_t *size)
{
	while (ring->at < end) {
		const uint8_t *header = ring->data + (ring->at & (ring->size - 1));
		uint32_t length = __atomic_load_n((const uint32_t *)header, __ATOMIC_ACQUIRE);

		if (length & BPF_RINGBUF_BUSY_BIT)
			return NULL;
		*size = length & ~BPF_RINGBUF_DISCARD_BIT;
		ring->at += (*size + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
		if (!(length & BPF_RINGBUF_DISCARD_BIT))
			return header + BPF_RINGBUF_HDR_SZ;
	}
	return NULL;
}

#endif
