/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unfreed memory of programs. It is tracked in the kernel, so that no call is missed while user space is busy. */
#ifndef SCOPE_CUDA_MEMORY_BPF_H
#define SCOPE_CUDA_MEMORY_BPF_H

#include "held.bpf.h"

enum cuda_memory_kind { CUDA_NO_MEMORY, CUDA_DEVICE, CUDA_PINNED, CUDA_MANAGED };

SCOPE_HELD(cuda_memory, 16384);
SCOPE_HELD(cuda_live, 65536);

struct cuda_allocations_key {
	__u64 start_ns;
	__u64 address;
	__s32 pid;
	__u32 pad;
};

struct cuda_allocation {
	__u64 bytes;
	__u64 ktime_ns;
	__u64 stack;
	__u64 context;
	__s32 device;
	__u32 memory;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cuda_allocations_key);
	__type(value, struct cuda_allocation);
} cuda_allocations SEC(".maps");

struct cuda_home {
	__u64 context;
	__s32 device;
	__u32 memory;
};

#include "chunks.bpf.h"

#define MOST_MAPPED 4096 /* mappings that one call may unmap */

static __always_inline struct cuda_memory_value *memory_of(struct task_struct *task, const struct cuda_home *home)
{
	struct cuda_memory_key key = {.start_ns = running_start_ns(),
				      .pid = task->tgid,
				      .device_id = home->device,
				      .memory_id = home->memory};

	return cuda_memory_entry(&key);
}

static __always_inline struct cuda_live_value *live_of(struct task_struct *task, const struct cuda_home *home,
						       __u64 stack)
{
	struct cuda_live_key key = {.start_ns = running_start_ns(),
				    .stack_id = stack,
				    .pid = task->tgid,
				    .device_id = home->device,
				    .memory_id = home->memory};

	return cuda_live_entry(&key);
}

/* In microseconds, so that the sum for a million allocations over months fits into 64 bits. */
static __always_inline __u64 since_start_us(const struct cuda_allocation *allocation)
{
	return (allocation->ktime_ns - running_start_ns()) / 1000;
}

/* Adds an allocation to the live memory (count = 1), or removes it (count = -1). */
static __always_inline void count_live(struct task_struct *task, const struct cuda_allocation *allocation, __s64 count)
{
	struct cuda_home home = {.device = allocation->device, .memory = allocation->memory};
	struct cuda_memory_value *memory = memory_of(task, &home);
	struct cuda_live_value *live = live_of(task, &home, allocation->stack);
	__u64 bytes = allocation->bytes * count;

	if (memory) {
		__sync_fetch_and_add(&memory->live_count, count);
		raise(&memory->peak_bytes, __sync_fetch_and_add(&memory->live_bytes, bytes) + bytes);
	}
	if (live) {
		__sync_fetch_and_add(&live->live_count, count);
		__sync_fetch_and_add(&live->live_bytes, bytes);
		__sync_fetch_and_add(&live->since_us, since_start_us(allocation) * count);
	}
}

/* Removes the allocation at an address; false: there is no known allocation. */
static __always_inline bool forget_allocation(struct task_struct *task, __u64 address, struct cuda_allocation *was,
					      bool implicit)
{
	struct cuda_allocations_key key = {.start_ns = running_start_ns(), .address = address, .pid = task->tgid};
	struct cuda_allocation *found = bpf_map_lookup_elem(&cuda_allocations, &key);
	struct cuda_memory_value *memory;
	struct cuda_home home;

	if (!found)
		return false;
	*was = *found;
	if (bpf_map_delete_elem(&cuda_allocations, &key))
		return false;
	forget_chunks(task, address, was->bytes);
	count_live(task, was, -1);
	home = (struct cuda_home){.device = was->device, .memory = was->memory};
	memory = memory_of(task, &home);
	if (memory)
		__sync_fetch_and_add(implicit ? &memory->implicit_frees : &memory->frees, 1);
	return true;
}

static __always_inline bool remember_allocation(struct task_struct *task, __u64 address,
						const struct cuda_allocation *allocation)
{
	struct cuda_allocations_key key = {.start_ns = running_start_ns(), .address = address, .pid = task->tgid};

	if (bpf_map_update_elem(&cuda_allocations, &key, allocation, BPF_ANY)) {
		scope_count_loss(stream_cuda_live, SCOPE_LOST_MAP_FULL);
		return false;
	}
	remember_chunks(task, address, allocation->bytes, allocation->memory);
	count_live(task, allocation, 1);
	return true;
}

/* Undoes the removal after a failed free. */
static __always_inline void put_back(struct task_struct *task, __u64 address, const struct cuda_allocation *was)
{
	struct cuda_home home = {.device = was->device, .memory = was->memory};
	struct cuda_memory_value *memory = memory_of(task, &home);

	if (remember_allocation(task, address, was) && memory)
		__sync_fetch_and_add(&memory->frees, -1);
}

static __always_inline void allocated(struct task_struct *task, const struct cuda_home *home, __u64 address,
				      __u64 bytes, __u64 stack)
{
	struct cuda_allocation was, allocation = {.bytes = bytes,
						  .ktime_ns = bpf_ktime_get_boot_ns(),
						  .stack = stack,
						  .context = home->context,
						  .device = home->device,
						  .memory = home->memory};
	struct cuda_memory_value *memory;
	struct cuda_live_value *live;

	if (!address)
		return;
	forget_allocation(task, address, &was, true); /* was freed by an unrecorded call */
	if (!remember_allocation(task, address, &allocation))
		return;
	memory = memory_of(task, home);
	if (memory) {
		__sync_fetch_and_add(&memory->allocations, 1);
		__sync_fetch_and_add(&memory->allocated_bytes, bytes);
	}
	live = live_of(task, home, stack);
	if (live)
		__sync_fetch_and_add(&live->allocations, 1);
}

static __always_inline void count_unknown_free(struct task_struct *task, const struct cuda_home *home)
{
	struct cuda_memory_value *memory = memory_of(task, home);

	if (memory)
		__sync_fetch_and_add(&memory->unknown_frees, 1);
}

struct unmapping {
	__u64 address;
	__u64 end;
	bool has_unknown;
};

static long unmap_next(__u32 index, struct unmapping *range)
{
	struct cuda_allocation was;

	if (range->address >= range->end)
		return 1;
	if (forget_allocation(bpf_get_current_task_btf(), range->address, &was, false) && was.bytes) {
		range->address += was.bytes;
	} else { /* mapped before recording began; mappings start at chunks */
		range->has_unknown = true;
		range->address = ((range->address >> SMALLEST_CHUNK_SHIFT) + 1) << SMALLEST_CHUNK_SHIFT;
	}
	return 0;
}

/* Pools map memory in pieces and unmap it as a whole. */
static __always_inline void unmapped(struct task_struct *task, const struct cuda_home *home, __u64 address, __u64 bytes)
{
	struct unmapping range = {.address = address, .end = address + bytes};

	bpf_loop(MOST_MAPPED, unmap_next, &range, 0);
	if (range.has_unknown || range.address < range.end)
		count_unknown_free(task, home);
}

#endif
