/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory of ggml that is not freed: buffers in the host's memory, and parts of the pools on GPUs. */
#ifndef SCOPE_GGML_MEMORY_BPF_H
#define SCOPE_GGML_MEMORY_BPF_H

#include "held.bpf.h"

SCOPE_HELD(ggml_memory, 16384);
SCOPE_HELD(ggml_live, 65536);

struct ggml_allocations_key {
	__u64 start_ns;
	__u64 address;
	__s32 pid;
	__u32 pad;
};

SCOPE_SHARED(struct, ggml_allocations_key);

struct ggml_kept {
	__u64 bytes;
	__u64 stack;
	enum ggml_memory_kind memory;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ggml_allocations_key);
	__type(value, struct ggml_kept);
} ggml_allocations SEC(".maps");

static __always_inline struct ggml_memory_value *memory_of(struct task_struct *task, enum ggml_memory_kind memory)
{
	struct ggml_memory_key key = {.start_ns = running_start_ns(), .pid = task->tgid, .memory = memory};

	return ggml_memory_entry(&key);
}

static __always_inline struct ggml_live_key live_key(__u64 start_ns, __s32 pid, const struct ggml_kept *kept)
{
	struct ggml_live_key key = {.start_ns = start_ns, .stack_id = kept->stack, .pid = pid, .memory = kept->memory};

	return key;
}

static __always_inline void add_live(struct task_struct *task, const struct ggml_kept *kept)
{
	struct ggml_live_key key = live_key(running_start_ns(), task->tgid, kept);
	struct ggml_live_value *live = ggml_live_entry(&key);

	if (!live)
		return;
	__sync_fetch_and_add(&live->allocations, 1);
	__sync_fetch_and_add(&live->live_count, 1);
	__sync_fetch_and_add(&live->live_bytes, kept->bytes);
}

static __always_inline void take_live(__u64 start_ns, __s32 pid, const struct ggml_kept *kept)
{
	struct ggml_live_key key = live_key(start_ns, pid, kept);
	struct ggml_live_value *live = bpf_map_lookup_elem(&ggml_live, &key);

	if (!live)
		return;
	__sync_fetch_and_add(&live->live_bytes, -kept->bytes);
	__sync_fetch_and_add(&live->live_count, -1);
}

static __always_inline void keep_allocation(struct task_struct *task, enum ggml_memory_kind memory, __u64 address,
					    __u64 bytes, __u64 stack)
{
	struct ggml_allocations_key key = {.start_ns = running_start_ns(), .address = address, .pid = task->tgid};
	struct ggml_kept kept = {.bytes = bytes, .stack = stack, .memory = memory};
	struct ggml_memory_value *value = memory_of(task, memory);
	struct ggml_kept *unfreed = bpf_map_lookup_elem(&ggml_allocations, &key);

	if (!value)
		return;
	if (unfreed) { /* its free was not seen, for example because of the filter */
		__sync_fetch_and_add(&value->live_bytes, -unfreed->bytes);
		__sync_fetch_and_add(&value->live_count, -1);
		take_live(key.start_ns, key.pid, unfreed);
	}
	if (bpf_map_update_elem(&ggml_allocations, &key, &kept, BPF_ANY)) {
		scope_count_loss(stream_ggml_memory, SCOPE_LOST_MAP_FULL);
		return;
	}
	__sync_fetch_and_add(&value->allocations, 1);
	__sync_fetch_and_add(&value->allocated_bytes, bytes);
	__sync_fetch_and_add(&value->live_count, 1);
	raise(&value->peak_bytes, __sync_fetch_and_add(&value->live_bytes, bytes) + bytes);
	if (keep_stacks)
		add_live(task, &kept);
}

/* Returns the bytes; 0: unknown, since the memory was allocated before recording. */
static __always_inline __u64 forget_allocation(struct task_struct *task, enum ggml_memory_kind memory, __u64 address)
{
	struct ggml_allocations_key key = {.start_ns = running_start_ns(), .address = address, .pid = task->tgid};
	struct ggml_memory_value *value = memory_of(task, memory);
	struct ggml_kept *found = bpf_map_lookup_elem(&ggml_allocations, &key), kept;

	if (!value)
		return 0;
	__sync_fetch_and_add(&value->frees, 1);
	if (!found) {
		__sync_fetch_and_add(&value->unknown_frees, 1);
		return 0;
	}
	kept = *found;
	if (bpf_map_delete_elem(&ggml_allocations, &key))
		return 0;
	__sync_fetch_and_add(&value->live_bytes, -kept.bytes);
	__sync_fetch_and_add(&value->live_count, -1);
	take_live(key.start_ns, key.pid, &kept);
	return kept.bytes;
}

struct leaving {
	__u64 start_ns;
	__s32 pid;
	__u32 pad;
};

static long leave_allocation(void *map, const struct ggml_allocations_key *key, struct ggml_kept *kept,
			     const struct leaving *left)
{
	if (key->start_ns == left->start_ns && key->pid == left->pid) {
		take_live(left->start_ns, left->pid, kept);
		bpf_map_delete_elem(map, key);
	}
	return 0;
}

/* An exec frees all memory of the process. */
static __always_inline void leave_memory(struct task_struct *task)
{
	struct leaving left = {.start_ns = task_start_ns(task), .pid = task->tgid};
	struct ggml_memory_key key = {.start_ns = left.start_ns, .pid = left.pid};
	bool held = false;

	for (int kind = GGML_HOST; kind <= GGML_POOL; kind++) {
		struct ggml_memory_value *value;

		key.memory = kind;
		value = bpf_map_lookup_elem(&ggml_memory, &key);
		if (!value)
			continue;
		value->live_bytes = 0;
		value->live_count = 0;
		held = true;
	}
	if (held)
		bpf_for_each_map_elem(&ggml_allocations, leave_allocation, &left, 0);
}

#endif
