/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Blocks of memory that are not freed. They are paired with their frees in the kernel, so that no call is missed. */
#ifndef SCOPE_HEAP_BLOCKS_BPF_H
#define SCOPE_HEAP_BLOCKS_BPF_H

#include "held.bpf.h"

SCOPE_HELD(heap_memory, 16384);
SCOPE_HELD(heap_live, 65536);

const volatile __u64 sample_bytes; /* bytes; 0: every allocation is recorded */

struct heap_blocks_key {
	__u64 start_ns;
	__u64 address;
	__s32 pid;
	__u32 pad;
};

/* A block that stands for `count` blocks with together `bytes` bytes. */
struct heap_block {
	__u64 bytes;
	__u64 count;	/* 0: there is no block */
	__u64 since_us; /* since the process's start; in microseconds, so that sums fit into 64 bits */
	__u64 stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1048576);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct heap_blocks_key);
	__type(value, struct heap_block);
} heap_blocks SEC(".maps");

/*
 * Chooses an allocation with the probability size / sample_bytes, and fills in what it stands for: so the expected
 * sums of bytes and of allocations are the true ones, whatever the sizes. Large allocations are all recorded.
 */
static __always_inline bool is_chosen(__u64 size, struct heap_block *block)
{
	__u64 every = sample_bytes, likely = size ? size : 1;

	block->bytes = size;
	block->count = 1;
	if (likely >= every)
		return true;
	if ((__u64)bpf_get_prandom_u32() * every >> 32 >= likely) /* `every` is below 2^32 */
		return false;
	block->bytes = size ? every : 0;
	block->count = every / likely + (bpf_get_prandom_u32() % likely < every % likely);
	return true;
}

static __always_inline struct heap_memory_value *memory_of(const struct heap_blocks_key *of)
{
	struct heap_memory_key key = {.start_ns = of->start_ns, .pid = of->pid};
	struct heap_memory_value *value = heap_memory_entry(&key);

	if (value)
		value->sample_bytes = sample_bytes;
	return value;
}

static __always_inline struct heap_live_value *live_of(const struct heap_blocks_key *of, __u64 stack)
{
	struct heap_live_key key = {.start_ns = of->start_ns, .stack_id = stack, .pid = of->pid};
	struct heap_live_value *value = heap_live_entry(&key);

	if (value)
		value->sample_bytes = sample_bytes;
	return value;
}

/* Adds a block to the live memory (sign = 1), or removes it (sign = -1). */
static __always_inline void count_live(const struct heap_blocks_key *key, const struct heap_block *block, __s64 sign)
{
	struct heap_memory_value *memory = memory_of(key);
	struct heap_live_value *live = live_of(key, block->stack);
	__u64 bytes = block->bytes * sign, count = block->count * sign;

	if (memory) {
		__sync_fetch_and_add(&memory->live_count, count);
		raise(&memory->peak_bytes, __sync_fetch_and_add(&memory->live_bytes, bytes) + bytes);
	}
	if (live) {
		__sync_fetch_and_add(&live->live_count, count);
		__sync_fetch_and_add(&live->live_bytes, bytes);
		__sync_fetch_and_add(&live->since_us, block->since_us * count);
	}
}

/* Keeps a block; false: there is no room, which is counted. */
static __noinline bool put_block(struct heap_blocks_key *key, struct heap_block *block)
{
	if (!key || !block) /* never NULL, but the verifier does not know */
		return false;
	if (bpf_map_update_elem(&heap_blocks, key, block, BPF_ANY)) {
		scope_count_loss(stream_heap_live, SCOPE_LOST_MAP_FULL);
		return false;
	}
	count_live(key, block, 1);
	return true;
}

/* Removes the block at an address, and tells what it was; false: there is no known block. */
static __noinline bool take_block(struct heap_blocks_key *key, struct heap_block *was)
{
	struct heap_block *found;

	if (!key || !was)
		return false;
	found = bpf_map_lookup_elem(&heap_blocks, key);
	if (!found)
		return false;
	*was = *found;
	if (bpf_map_delete_elem(&heap_blocks, key))
		return false;
	count_live(key, was, -1);
	return true;
}

/* Counts a block that was freed just now; with `was->count` 0, one that is unknown. */
static __always_inline void count_free(const struct heap_blocks_key *key, const struct heap_block *was)
{
	struct heap_memory_value *memory;

	if (!was->count && sample_bytes) /* most likely, it was not chosen */
		return;
	memory = memory_of(key);
	if (!memory)
		return;
	if (was->count)
		__sync_fetch_and_add(&memory->frees, was->count);
	else
		__sync_fetch_and_add(&memory->unknown_frees, 1);
}

static __always_inline void count_allocation(const struct heap_blocks_key *key, const struct heap_block *block)
{
	struct heap_memory_value *memory = memory_of(key);
	struct heap_live_value *live = live_of(key, block->stack);

	if (memory) {
		__sync_fetch_and_add(&memory->allocations, block->count);
		__sync_fetch_and_add(&memory->allocated_bytes, block->bytes);
	}
	if (live)
		__sync_fetch_and_add(&live->allocations, block->count);
}

static long leave_block(struct bpf_map *map, struct heap_blocks_key *key, struct heap_block *block,
			const struct heap_memory_key *left)
{
	struct heap_blocks_key gone = *key;
	struct heap_block was;

	if (key->start_ns == left->start_ns && key->pid == left->pid)
		take_block(&gone, &was);
	return 0;
}

/* An exec frees all memory of the process. Walks the blocks of all processes, once per program. */
static __always_inline void leave_blocks(struct task_struct *task)
{
	struct heap_memory_key key = {.start_ns = running_start_ns(), .pid = task->tgid};
	struct heap_memory_value *memory = bpf_map_lookup_elem(&heap_memory, &key);

	if (memory && memory->live_count)
		bpf_for_each_map_elem(&heap_blocks, leave_block, &key, 0);
}

#endif
