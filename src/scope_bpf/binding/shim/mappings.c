/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which files are mapped to be executed, as it happens, on the whole machine: the kernel's own account for profilers
 * (PERF_RECORD_MMAP2, include/uapi/linux/perf_event.h), which costs nothing until somebody maps code. Files that are
 * known are passed over here.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

#define RING_PAGES 16 /* a power of two, for each CPU */
#define MOST_RECORD 65536

struct cpu_ring {
	int fd;
	struct perf_event_mmap_page *control;
};

struct scope_mappings {
	struct cpu_ring *rings;
	uint32_t count;
	uint8_t record[MOST_RECORD]; /* one that wraps around a ring's end */
	scope_file *known;	     /* a hash table; inode 0: a free place */
	uint32_t known_count, known_places;
};

struct mmap2_record { /* PERF_RECORD_MMAP2 without build id */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
};

static size_t ring_bytes(void)
{
	return RING_PAGES * (size_t)getpagesize();
}

static int open_ring(struct cpu_ring *ring, int cpu)
{
	struct perf_event_attr wanted = {
		.size = sizeof(wanted),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.watermark = 1,
		.wakeup_watermark = 1,
	};

	ring->fd = syscall(SYS_perf_event_open, &wanted, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return errno == ENODEV ? 0 : -errno; /* a CPU that is offline */
	ring->control = mmap(NULL, getpagesize() + ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (ring->control == MAP_FAILED) {
		ring->control = NULL;
		return -errno;
	}
	return 0;
}

void scope_mappings_free(struct scope_mappings *mappings)
{
	uint32_t i;

	for (i = 0; i < mappings->count; i++) {
		if (mappings->rings[i].control)
			munmap(mappings->rings[i].control, getpagesize() + ring_bytes());
		if (mappings->rings[i].fd >= 0)
			close(mappings->rings[i].fd);
	}
	free(mappings->rings);
	free(mappings->known);
	free(mappings);
}

/* Watches from now on. NULL and errno: the kernel refused, or there is no memory. */
struct scope_mappings *scope_mappings_new(uint32_t cpus)
{
	struct scope_mappings *mappings = calloc(1, sizeof(*mappings));
	int error = -ENOMEM;

	if (!mappings)
		return NULL;
	mappings->rings = calloc(cpus, sizeof(*mappings->rings));
	mappings->known_places = 1024;
	mappings->known = calloc(mappings->known_places, sizeof(*mappings->known));
	if (!mappings->rings || !mappings->known)
		goto failed;
	for (; mappings->count < cpus; mappings->count++) {
		error = open_ring(&mappings->rings[mappings->count], mappings->count);
		if (error) {
			mappings->count++;
			goto failed;
		}
	}
	return mappings;

failed:
	scope_mappings_free(mappings);
	errno = -error;
	return NULL;
}

/* The descriptor that tells when a CPU has news; negative: none. */
int scope_mappings_fd(const struct scope_mappings *mappings, uint32_t cpu)
{
	return mappings->rings[cpu].fd;
}

static scope_file *place_of(const struct scope_mappings *mappings, scope_file file)
{
	uint64_t hash = (file.inode * 0x9e3779b97f4a7c15ULL) ^ ((uint64_t)file.major << 32 | file.minor);
	uint32_t at = (hash ^ hash >> 32) & (mappings->known_places - 1);
	scope_file *place;

	for (;; at = (at + 1) & (mappings->known_places - 1)) {
		place = &mappings->known[at];
		if (!place->inode || !memcmp(place, &file, sizeof(file)))
			return place;
	}
}

/* From now on mappings of this file are passed over. */
int scope_mappings_know(struct scope_mappings *mappings, scope_file file)
{
	scope_file *place, *old = mappings->known;
	uint32_t i, places = mappings->known_places;

	if (mappings->known_count * 2 >= places) {
		scope_file *larger = calloc(2 * places, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		mappings->known = larger;
		mappings->known_places = 2 * places;
		for (i = 0; i < places; i++)
			if (old[i].inode)
				*place_of(mappings, old[i]) = old[i];
		free(old);
	}
	place = place_of(mappings, file);
	mappings->known_count += !place->inode;
	*place = file;
	return 0;
}

/* The record at a position of a ring, whole. */
static const struct perf_event_header *record_at(struct scope_mappings *mappings, const uint8_t *data, uint64_t at)
{
	const struct perf_event_header *header = (const void *)(data + at % ring_bytes());
	size_t before_end = ring_bytes() - at % ring_bytes();

	if (header->size <= before_end)
		return header;
	memcpy(mappings->record, header, before_end);
	memcpy(mappings->record + before_end, data, header->size - before_end);
	return (const void *)mappings->record;
}

/*
 * Mappings of files that are not known, since the last call: how many were put into `found`. -ENOBUFS: some were not
 * told, the ring was full; the rest will be with the next call.
 */
int scope_mappings_read(struct scope_mappings *mappings, scope_mapping *found, uint32_t room)
{
	uint32_t count = 0, i;
	int lost = 0;

	for (i = 0; i < mappings->count; i++) {
		struct perf_event_mmap_page *control = mappings->rings[i].control;
		const uint8_t *data = (const uint8_t *)control + getpagesize();
		uint64_t at, head;

		if (!control)
			continue;
		head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
		for (at = control->data_tail; at < head && count < room;) {
			const struct perf_event_header *header = record_at(mappings, data, at);
			const struct mmap2_record *map = (const void *)header;
			scope_file file;

			at += header->size;
			if (header->type == PERF_RECORD_LOST)
				lost = 1;
			if (header->type != PERF_RECORD_MMAP2 || !map->inode)
				continue;
			file = (scope_file){.major = map->major,
					    .minor = map->minor,
					    .inode = map->inode,
					    .generation = map->generation};
			if (place_of(mappings, file)->inode)
				continue;
			found[count++] = (scope_mapping){.start = map->address,
							 .end = map->address + map->length,
							 .file = file,
							 .pid = map->pid};
		}
		__atomic_store_n(&control->data_tail, at, __ATOMIC_RELEASE);
	}
	return lost ? -ENOBUFS : (int)count;
}
