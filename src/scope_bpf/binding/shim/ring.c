/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <bpf/bpf.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring.h"

static size_t shared_size(const struct scope_ring *ring)
{
	return getpagesize() + ring->size + (ring->size < SCOPE_RING_MOST_RECORD ? ring->size : SCOPE_RING_MOST_RECORD);
}

int scope_ring_map(struct scope_ring *ring, int fd)
{
	struct bpf_map_info info = {};
	uint32_t info_size = sizeof(info);
	void *own, *shared;

	if (bpf_obj_get_info_by_fd(fd, &info, &info_size))
		return -errno;
	ring->size = info.max_entries;
	own = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (own == MAP_FAILED)
		return -errno;
	shared = mmap(NULL, shared_size(ring), PROT_READ, MAP_SHARED, fd, getpagesize());
	if (shared == MAP_FAILED) {
		int error = -errno;

		munmap(own, getpagesize());
		return error;
	}
	ring->consumer = own;
	ring->producer = shared;
	ring->data = (const uint8_t *)shared + getpagesize();
	ring->at = __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE);
	return 0;
}

void scope_ring_unmap(struct scope_ring *ring)
{
	munmap(ring->consumer, getpagesize());
	munmap((void *)ring->producer, shared_size(ring));
}
