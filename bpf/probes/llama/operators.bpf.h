/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a thread computes in a call: samples of it, by the kind of the function that it was in. User space knows the
 * kinds of functions by their names, and writes them as ranges of each file.
 */
#ifndef SCOPE_LLAMA_OPERATORS_BPF_H
#define SCOPE_LLAMA_OPERATORS_BPF_H

#define LLAMA_FILES 1024
#define LLAMA_RANGES (1 << 16) /* of all files */
#define LLAMA_RANGES_LOG 16

/* The ranges of a file: some of `llama_ranges`, in order. */
struct llama_file {
	__u32 first;
	__u32 count;
};

/* Code from an offset in a file to the begin of the next range. */
struct llama_range {
	__u64 begin;
	enum llama_operator kind;
	__u32 pad;
};

SCOPE_SHARED(struct, llama_file);
SCOPE_SHARED(struct, llama_range);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LLAMA_FILES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64); /* address of the inode, see struct scope_code */
	__type(value, struct llama_file);
} llama_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LLAMA_RANGES);
	__type(key, __u32);
	__type(value, struct llama_range);
} llama_ranges SEC(".maps");

static __always_inline bool is_kernel_address(__u64 address)
{
	return (__s64)address < 0;
}

/* The kind of the function at a place in a file. */
static __always_inline enum llama_operator kind_at(const struct scope_code *code)
{
	const struct llama_file *file = bpf_map_lookup_elem(&llama_files, &code->inode);
	enum llama_operator kind = LLAMA_OTHER;
	const struct llama_range *range;
	__u32 low, high, middle;

	if (!file)
		return LLAMA_OTHER;
	low = file->first;
	high = file->first + file->count;
	for (__u32 i = 0; i <= LLAMA_RANGES_LOG && low < high; i++) {
		middle = low + (high - low) / 2;
		range = bpf_map_lookup_elem(&llama_ranges, &middle);
		if (!range)
			break;
		if (range->begin <= code->offset) {
			kind = range->kind;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return kind;
}

/* What the running thread, which was interrupted at this address, does. */
static __always_inline enum llama_operator kind_of(struct task_struct *task, __u64 address)
{
	struct scope_code code = {};

	if (is_kernel_address(address))
		return LLAMA_KERNEL;
	if (find_code(task, address, &code))
		return LLAMA_OTHER;
	return kind_at(&code);
}

/* Shares a time on a CPU out to the kinds, in proportion to the samples in it; what rounding leaves is `other`. */
static __always_inline void share_out(struct llama_operators *operators, __u64 on_cpu_ns,
				      const __u32 samples[LLAMA_SAMPLED])
{
	__u64 all = 0, left_ns = on_cpu_ns, *part_ns = &operators->matmul_ns;

	__builtin_memset(operators, 0, sizeof(*operators));
	for (__u32 i = 0; i < LLAMA_SAMPLED; i++)
		all += samples[i];
	if (!all) {
		operators->unsampled_ns = on_cpu_ns;
		return;
	}
	for (__u32 i = 0; i < LLAMA_SAMPLED; i++) {
		part_ns[i] = on_cpu_ns * samples[i] / all;
		left_ns -= part_ns[i];
	}
	operators->other_ns += left_ns;
}

#endif
