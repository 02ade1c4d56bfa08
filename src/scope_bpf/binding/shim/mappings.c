/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reports executable mappings, forks and exits as they happen, from the kernel's events for profilers
 * (include/uapi/linux/perf_event.h), which cost nothing while none happen. Watches single processes and their children,
 * a cgroup, or the whole machine; for the whole machine, unwanted events are skipped.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

#define RING_PAGES 32 /* a power of two, for each CPU */
#define MOST_RECORD 65536
#define MOST_KNOWN 65536     /* files; a power of two */
#define MOST_PIDS (1u << 22) /* PID_MAX_LIMIT, include/linux/threads.h */

struct cpu_ring {
	int fd; /* has no events itself: other events write to its ring */
	struct perf_event_mmap_page *control;
};

struct scope_mappings {
	struct cpu_ring *rings;
	uint32_t count;
	int *sources; /* descriptors of the events that write to the rings */
	size_t source_count;
	bool whole_machine;
	uint8_t record[MOST_RECORD]; /* copy of a record that wraps around a ring's end */
	scope_file *known;	     /* a hash table; inode 0: a free slot */
	uint32_t known_count;
	uint64_t *followed; /* one bit per pid */
};

struct mmap2_record { /* PERF_RECORD_MMAP2 without build id */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t protection, flags;
	char path[];
};

struct task_record { /* PERF_RECORD_FORK, PERF_RECORD_EXIT */
	struct perf_event_header header;
	uint32_t pid, parent, tid, parent_tid;
	uint64_t time_ns;
};

static size_t ring_bytes(void)
{
	return RING_PAGES * (size_t)getpagesize();
}

static struct perf_event_attr plain_event(void)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_BOOTTIME, /* the clock of events */
		.watermark = 1,
		.wakeup_watermark = 1,
	};
}

static int open_ring(struct cpu_ring *ring, int cpu)
{
	struct perf_event_attr wanted = plain_event();

	ring->fd = syscall(SYS_perf_event_open, &wanted, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return errno == ENODEV ? 0 : -errno; /* the CPU is offline */
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

	while (mappings->source_count)
		close(mappings->sources[--mappings->source_count]);
	for (i = 0; i < mappings->count; i++) {
		if (mappings->rings[i].control)
			munmap(mappings->rings[i].control, getpagesize() + ring_bytes());
		if (mappings->rings[i].fd >= 0)
			close(mappings->rings[i].fd);
	}
	free(mappings->sources);
	free(mappings->rings);
	free(mappings->known);
	free(mappings->followed);
	free(mappings);
}

/* Watches nothing at first. NULL and errno: the kernel refused, or there is no memory. */
struct scope_mappings *scope_mappings_new(uint32_t cpus)
{
	struct scope_mappings *mappings = calloc(1, sizeof(*mappings));
	int error = -ENOMEM;

	if (!mappings)
		return NULL;
	mappings->rings = calloc(cpus, sizeof(*mappings->rings));
	mappings->known = calloc(MOST_KNOWN, sizeof(*mappings->known));
	mappings->followed = calloc(MOST_PIDS / 64, sizeof(*mappings->followed));
	if (!mappings->rings || !mappings->known || !mappings->followed)
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

/* The descriptor that becomes readable when a CPU has news; negative: none. */
int scope_mappings_fd(const struct scope_mappings *mappings, uint32_t cpu)
{
	return mappings->rings[cpu].fd;
}

/*
 * Adds a source of events: a thread and its descendants (id: its tid), a cgroup and its child cgroups (flags:
 * PERF_FLAG_PID_CGROUP, id: a descriptor), or all processes (id: -1).
 */
static int add_source(struct scope_mappings *mappings, int id, unsigned long flags, bool inherit)
{
	struct perf_event_attr wanted = plain_event();
	uint32_t cpu;
	int *larger, fd;

	wanted.mmap = wanted.mmap2 = wanted.task = 1;
	wanted.inherit = inherit;
	larger = realloc(mappings->sources, (mappings->source_count + mappings->count) * sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	mappings->sources = larger;
	for (cpu = 0; cpu < mappings->count; cpu++) {
		if (mappings->rings[cpu].fd < 0)
			continue;
		fd = syscall(SYS_perf_event_open, &wanted, id, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);
		if (fd < 0)
			return -errno;
		mappings->sources[mappings->source_count++] = fd;
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, mappings->rings[cpu].fd))
			return -errno;
	}
	return 0;
}

/* Watches a thread and its future descendants. -ESRCH: it has ended. */
int scope_mappings_watch_thread(struct scope_mappings *mappings, int tid)
{
	return add_source(mappings, tid, 0, true);
}

/* Watches a cgroup and its child cgroups, by a descriptor of its directory. */
int scope_mappings_watch_cgroup(struct scope_mappings *mappings, int fd)
{
	return add_source(mappings, fd, PERF_FLAG_PID_CGROUP, false);
}

/* Watches all processes; skips mappings of known files, and other news of processes that are not followed. */
int scope_mappings_watch_all(struct scope_mappings *mappings)
{
	mappings->whole_machine = true;
	return add_source(mappings, -1, 0, false);
}

/* Stops watching; earlier news is still reported. */
void scope_mappings_watch_nothing(struct scope_mappings *mappings)
{
	while (mappings->source_count)
		close(mappings->sources[--mappings->source_count]);
	mappings->whole_machine = false;
}

static scope_file *place_of(const struct scope_mappings *mappings, scope_file file)
{
	uint64_t hash = (file.inode * 0x9e3779b97f4a7c15ULL) ^ ((uint64_t)file.major << 32 | file.minor);
	uint32_t at = (hash ^ hash >> 32) & (MOST_KNOWN - 1);
	scope_file *place;

	for (;; at = (at + 1) & (MOST_KNOWN - 1)) {
		place = &mappings->known[at];
		if (!place->inode || !memcmp(place, &file, sizeof(file)))
			return place;
	}
}

/* From now on, skips mappings of this file by processes that are not followed. */
void scope_mappings_know(struct scope_mappings *mappings, scope_file file)
{
	scope_file *place;

	if (mappings->known_count >= MOST_KNOWN / 2) { /* they are only reported again */
		memset(mappings->known, 0, MOST_KNOWN * sizeof(*mappings->known));
		mappings->known_count = 0;
	}
	place = place_of(mappings, file);
	mappings->known_count += !place->inode;
	*place = file;
}

/* Sets whether all news of a process is reported while the whole machine is watched. */
void scope_mappings_follow(struct scope_mappings *mappings, uint32_t pid, bool followed)
{
	uint64_t bit = 1ull << pid % 64, *word = &mappings->followed[pid % MOST_PIDS / 64];

	*word = followed ? *word | bit : *word & ~bit;
}

static bool follows(const struct scope_mappings *mappings, uint32_t pid)
{
	return !mappings->whole_machine || mappings->followed[pid % MOST_PIDS / 64] >> pid % 64 & 1;
}

/* The record at a position of a ring, in one piece. */
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

/* Converts a record to news; false: not wanted. */
static bool read_news(struct scope_mappings *mappings, const struct perf_event_header *header, scope_news *news)
{
	const struct mmap2_record *map = (const void *)header;
	const struct task_record *task = (const void *)header;
	size_t path;

	memset(news, 0, sizeof(*news));
	if (header->type == PERF_RECORD_MMAP2) {
		/* The time is at the end of every record. */
		memcpy(&news->time_ns, (const uint8_t *)header + header->size - sizeof(news->time_ns),
		       sizeof(news->time_ns));
		news->kind = SCOPE_MAPPED;
		news->pid = map->pid;
		news->start = map->address;
		news->end = map->address + map->length;
		news->offset = map->offset;
		news->file = (scope_file){
			.major = map->major, .minor = map->minor, .inode = map->inode, .generation = map->generation};
		path = strnlen(map->path, header->size - sizeof(*map));
		memcpy(news->path, map->path, path < sizeof(news->path) ? path : 0);
		return follows(mappings, news->pid) || (map->inode && !place_of(mappings, news->file)->inode);
	}
	if (header->type != PERF_RECORD_FORK && header->type != PERF_RECORD_EXIT)
		return false;
	news->time_ns = task->time_ns;
	news->pid = task->pid;
	news->parent = task->parent;
	if (header->type == PERF_RECORD_EXIT) {
		news->kind = SCOPE_ENDED;
		return task->pid == task->tid && follows(mappings, task->pid);
	}
	news->kind = SCOPE_FORKED;
	return task->pid != task->parent && follows(mappings, task->parent);
}

/*
 * Puts the news since the last call into `found`, ring by ring; returns the number. If `found` is full, there may be
 * more. `lost` counts how often a ring was full and news was lost.
 */
uint32_t scope_mappings_read(struct scope_mappings *mappings, scope_news *found, uint32_t room, uint32_t *lost)
{
	uint32_t count = 0, i;

	for (i = 0; i < mappings->count; i++) {
		struct perf_event_mmap_page *control = mappings->rings[i].control;
		const uint8_t *data = (const uint8_t *)control + getpagesize();
		uint64_t at, head;

		if (!control)
			continue;
		head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
		for (at = control->data_tail; at < head && count < room;) {
			const struct perf_event_header *header = record_at(mappings, data, at);

			at += header->size;
			*lost += header->type == PERF_RECORD_LOST;
			count += read_news(mappings, header, &found[count]);
		}
		__atomic_store_n(&control->data_tail, at, __ATOMIC_RELEASE);
	}
	return count;
}
