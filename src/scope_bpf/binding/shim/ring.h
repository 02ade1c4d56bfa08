/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads one BPF ring buffer, laid out as kernel/bpf/ringbuf.c says: a page with the consumer's position, which is ours
 * to write, a page with the producer's, then the data, mapped a second time behind itself so that no record is torn.
 *
 * libbpf's reader tells the kernel of every record it consumed. The producer reads that same cache line for every
 * record it reserves, so that both wait for each other; here the kernel is told once in SCOPE_RING_TELL_BYTES.
 */
#ifndef SCOPE_RING_H
#define SCOPE_RING_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#define SCOPE_RING_TELL_BYTES (64 << 10)
#define SCOPE_RING_MOST_RECORD (64 << 10) /* so much of the second mapping is made: programs compose 32 KiB at most */

struct scope_ring {
	unsigned long *consumer; /* bytes consumed since the ring was made; ours */
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

/* Steps over the next record before `end` and returns it; NULL: none is complete. It holds until the ring is told. */
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
