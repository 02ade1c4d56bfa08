/* SPDX-License-Identifier: GPL-2.0-or-later */
/* No probe: the paths of cgroups, which user space looks up by the ids in rows, after their end too. */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MOST_CGROUPS 2048
#define MOST_BYTES 1024	 /* TRACE_CGROUP_PATH_LEN */
#define RING_BYTES 65536 /* a multiple of every page size */

struct cgroup_path {
	char path[MOST_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MOST_CGROUPS);
	__type(key, __u64); /* id */
	__type(value, struct cgroup_path);
} cgroup_paths SEC(".maps");

/* New cgroups whose containers user space does not know yet: it deletes what it knows. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MOST_CGROUPS);
	__type(key, __u64); /* id */
	__type(value, __u8);
} cgroups_young SEC(".maps");

/* The id of each new cgroup, and again at each exec in a young one, so that user space looks before its end. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} cgroups_made SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cgroup_path);
} scratch SEC(".maps");

/*
 * Runs before a new cgroup can be seen, so before a process can be in it. The path is from the root of the hierarchy,
 * also in a cgroup namespace. Misses cgroups of version 1, whose ids are in no row.
 */
SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_made, struct cgroup *cgroup, const char *path)
{
	struct cgroup_path *made;
	__u32 first = 0;
	__u8 young = 1;
	__u64 id;

	if (BPF_CORE_READ(cgroup, root, hierarchy_id))
		return 0;
	made = bpf_map_lookup_elem(&scratch, &first);
	if (!made)
		return 0;
	bpf_probe_read_kernel_str(made->path, sizeof(made->path), path);
	id = BPF_CORE_READ(cgroup, kn, id);
	bpf_map_update_elem(&cgroup_paths, &id, made, BPF_ANY);
	bpf_map_update_elem(&cgroups_young, &id, &young, BPF_ANY);
	bpf_ringbuf_output(&cgroups_made, &id, sizeof(id), BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Engines tell of a container before its program begins; some forget it as soon as the program has ended. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(cgroup_runs, struct task_struct *task)
{
	__u64 id = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);

	if (bpf_map_lookup_elem(&cgroups_young, &id))
		bpf_ringbuf_output(&cgroups_made, &id, sizeof(id), BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("license")
char LICENSE[] = "GPL";
