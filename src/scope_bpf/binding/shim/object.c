/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libbpf calls whose option structs and buffers are simpler to fill in C. All return 0 or more, or -errno. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

struct bpf_object *scope_object_open(const void *elf, size_t size, const char *name)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name);

	return bpf_object__open_mem(elf, size, &options);
}

int scope_create_ring(uint32_t bytes)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "scope_ring", 0, 0, bytes, NULL);

	return fd < 0 ? -errno : fd;
}

/* Creates a map like one of a loaded object, with BTF: before 6.2, a map in maps accepts only identical types. */
int scope_create_like(const struct bpf_object *object, const struct bpf_map *map, uint32_t entries)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = bpf_map__map_flags(map),
		    .btf_fd = bpf_object__btf_fd(object), .btf_key_type_id = bpf_map__btf_key_type_id(map),
		    .btf_value_type_id = bpf_map__btf_value_type_id(map));
	int fd = bpf_map_create(bpf_map__type(map), "scope_like", bpf_map__key_size(map), bpf_map__value_size(map),
				entries, &options);

	return fd < 0 ? -errno : fd;
}

/*
 * Reads and deletes all entries of a map that no program uses any more. keys: entries times key_size; values: entries
 * times value_size. Returns the number of entries.
 */
int64_t scope_read_summary(int fd, void *keys, void *values, uint32_t entries)
{
	uint64_t batch;
	uint32_t count = entries;

	if (bpf_map_lookup_and_delete_batch(fd, NULL, &batch, keys, values, &count, NULL) && errno != ENOENT)
		return -errno;
	return count;
}

/* Reads all entries of a map that programs use meanwhile, up to `entries`. Returns their number. */
int64_t scope_read_map(int fd, void *keys, void *values, uint32_t entries)
{
	uint64_t batch;
	uint32_t count = entries;

	if (bpf_map_lookup_batch(fd, NULL, &batch, keys, values, &count, NULL) && errno != ENOENT)
		return -errno;
	return count;
}

void scope_delete_keys(int fd, const void *keys, uint32_t key_size, uint32_t count)
{
	const char *key = keys;

	for (; count; count--, key += key_size)
		bpf_map_delete_elem(fd, key);
}

int scope_map_value_size(int fd)
{
	struct bpf_map_info info = {};
	uint32_t size = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &size) ? -errno : (int)info.value_size;
}

/* missed: runs that the kernel skipped because the program was already running on that CPU. */
int scope_program_cost(int fd, uint64_t *run_time_ns, uint64_t *run_count, uint64_t *missed)
{
	struct bpf_prog_info info = {};
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return -errno;
	*run_time_ns = info.run_time_ns;
	*run_count = info.run_cnt;
	*missed = info.recursion_misses;
	return 0;
}

/* Runs a raw_tp program once in this thread with args[0] = argument. */
int scope_run_raw_tp(int fd, uint64_t argument)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = &argument, .ctx_size_in = sizeof(argument));

	return bpf_prog_test_run_opts(fd, &options) ? -errno : 0;
}
