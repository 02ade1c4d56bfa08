/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the allocation that contains an address. The map has an entry for each chunk of addresses that an allocation
 * touches. There are chunks of three sizes; an allocation uses the largest that is not larger than itself. So it
 * touches at most 33 chunks, and a chunk has at most two allocations: one that contains its first byte, and one that
 * begins in it. Only if allocations are smaller than the smallest chunk, more of them may begin in one; then only the
 * last is kept, and addresses in the others are unknown.
 */
#ifndef SCOPE_CUDA_CHUNKS_BPF_H
#define SCOPE_CUDA_CHUNKS_BPF_H

#define SMALLEST_CHUNK_SHIFT 21 /* CUDA aligns allocations of 2 MiB or more to 2 MiB */
#define CHUNK_SIZE_SHIFT 5	/* the next size is 32 times as large */
#define CHUNK_SIZES 3
#define MOST_CHUNKS 4096 /* of the largest size: 8 TiB */

struct cuda_chunks_key {
	__u64 start_ns;
	__u64 chunk;
	__s32 pid;
	__u32 size;
};

struct chunk_part {
	__u64 begin;
	__u64 end;
	__u64 memory; /* enum cuda_memory_kind; 0: there is none */
};

struct cuda_chunk {
	struct chunk_part first; /* contains the chunk's first byte */
	struct chunk_part inner; /* begins in the chunk */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cuda_chunks_key);
	__type(value, struct cuda_chunk);
} cuda_chunks SEC(".maps");

static const struct cuda_chunk no_chunk;

static __always_inline __u32 chunk_shift(__u32 size)
{
	return SMALLEST_CHUNK_SHIFT + size * CHUNK_SIZE_SHIFT;
}

static __always_inline bool part_has(const struct chunk_part *part, __u64 address)
{
	return part->memory && part->begin <= address && address < part->end;
}

struct chunk_walk {
	struct cuda_chunks_key key;
	struct chunk_part part;
	bool forget;
};

static long visit_chunk(__u32 index, struct chunk_walk *walk)
{
	struct cuda_chunk *chunk = bpf_map_lookup_elem(&cuda_chunks, &walk->key);
	bool begins = walk->key.chunk << chunk_shift(walk->key.size) < walk->part.begin;
	struct chunk_part *part, *other;

	if (!chunk && !walk->forget) {
		bpf_map_update_elem(&cuda_chunks, &walk->key, &no_chunk, BPF_NOEXIST);
		chunk = bpf_map_lookup_elem(&cuda_chunks, &walk->key);
		if (!chunk)
			return 1; /* full: only the direction of copies becomes unknown */
	}
	if (chunk) {
		part = begins ? &chunk->inner : &chunk->first;
		other = begins ? &chunk->first : &chunk->inner;
		if (!walk->forget)
			*part = walk->part;
		else if (part->begin == walk->part.begin)
			part->memory = 0;
		if (!part->memory && !other->memory)
			bpf_map_delete_elem(&cuda_chunks, &walk->key);
	}
	walk->key.chunk++;
	return 0;
}

static __always_inline void visit_chunks(struct task_struct *task, const struct chunk_part *part, bool forget)
{
	struct chunk_walk walk = {
		.key = {.start_ns = running_start_ns(), .pid = task->tgid}, .part = *part, .forget = forget};
	__u64 count;

	if (part->end <= part->begin)
		return;
	for (__u32 size = CHUNK_SIZES - 1; size; size--) {
		if ((part->end - part->begin) >> chunk_shift(size)) {
			walk.key.size = size;
			break;
		}
	}
	walk.key.chunk = part->begin >> chunk_shift(walk.key.size);
	count = ((part->end - 1) >> chunk_shift(walk.key.size)) - walk.key.chunk + 1;
	bpf_loop(count < MOST_CHUNKS ? count : MOST_CHUNKS, visit_chunk, &walk, 0);
}

static __always_inline void remember_chunks(struct task_struct *task, __u64 address, __u64 bytes, __u32 memory)
{
	struct chunk_part part = {.begin = address, .end = address + bytes, .memory = memory};

	visit_chunks(task, &part, false);
}

static __always_inline void forget_chunks(struct task_struct *task, __u64 address, __u64 bytes)
{
	struct chunk_part part = {.begin = address, .end = address + bytes};

	visit_chunks(task, &part, true);
}

static __always_inline bool is_device(__u64 memory)
{
	return memory == CUDA_DEVICE || memory == CUDA_MANAGED;
}

/* The enum cuda_memory_kind of the allocation that contains an address, or 0; and whether device memory is near. */
static __always_inline __u32 memory_around(struct task_struct *task, __u64 address, bool *near_device)
{
	struct cuda_chunks_key key = {.start_ns = running_start_ns(), .pid = task->tgid};
	struct cuda_chunk *chunk;

	for (__u32 size = 0; size < CHUNK_SIZES; size++) {
		key.size = size;
		key.chunk = address >> chunk_shift(size);
		chunk = bpf_map_lookup_elem(&cuda_chunks, &key);
		if (!chunk)
			continue;
		if (part_has(&chunk->first, address))
			return chunk->first.memory;
		if (part_has(&chunk->inner, address))
			return chunk->inner.memory;
		if (size == 0 && (is_device(chunk->first.memory) || is_device(chunk->inner.memory)))
			*near_device = true;
	}
	return 0;
}

#endif
