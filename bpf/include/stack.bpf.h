/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks of user space, walked by frame pointers. A stack is kept once, by a number made of its addresses and the
 * process; its frames are files and offsets in them, which stay right when the process has ended.
 */
#ifndef SCOPE_STACK_BPF_H
#define SCOPE_STACK_BPF_H

#define STACK_FRAMES 32

struct scope_stack {
	__u64 depth;
	struct scope_code frames[STACK_FRAMES]; /* innermost first; inode 0: not in a file, the offset is the address */
};

struct scope_stacks_key {
	__u64 start_ns;
	__u64 number;
	__s32 pid;
	__u32 pad;
};

/* They go with their process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct scope_stacks_key);
	__type(value, struct scope_stack);
} scope_stacks SEC(".maps");

static const struct scope_stack no_stack;

struct stack_walk {
	struct scope_stack *stack;
	const __u64 *addresses;
};

static long locate_frame(__u32 index, struct stack_walk *walk)
{
	struct scope_code code = {};
	__u64 address = 0;

	if (index >= STACK_FRAMES)
		return 1;
	bpf_probe_read_kernel(&address, sizeof(address), walk->addresses + index);
	/* A return address may be the first of another function, or of nothing; the call is before it. */
	find_code(bpf_get_current_task_btf(), address - 1, &code);
	if (!code.inode)
		code.offset = address;
	walk->stack->frames[index] = code;
	walk->stack->depth = index + 1;
	return 0;
}

static __always_inline __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

/*
 * From the frame of the function that is being entered. (bpf_get_stack() takes twice as long, and leaves the caller out
 * before 6.12.)
 *
 * addresses, recent: the running thread's own, for STACK_FRAMES addresses and for the numbers of stacks it had last.
 * Returns the stack's number; 0: none could be kept, which is counted as lost of the stream.
 */
static __always_inline __u64 keep_stack(struct task_struct *task, const struct user_frame *entry, __u64 *addresses,
					__u64 *recent, __u32 recent_count, __u16 stream)
{
	struct stack_walk walk = {};
	struct scope_stacks_key key = {.start_ns = task_start_ns(task), .pid = task->tgid};
	struct user_frame frame = *entry;
	__u64 at = 0, hash;
	__u32 slot;
	__u32 count = 0;

	hash = mix(task_start_ns(task), task->mm->start_stack);
	for (int depth = 0; depth < STACK_FRAMES; depth++) {
		if (!frame.return_address)
			break;
		addresses[depth] = frame.return_address;
		count = depth + 1;
		hash = mix(hash, frame.return_address);
		if (frame.outer <= at || frame.outer & 7)
			break; /* stacks grow downwards */
		at = frame.outer;
		frame.return_address = 0;
		if (bpf_probe_read_user(&frame, sizeof(frame), (void *)at))
			frame.return_address = 0;
	}
	hash >>= 1; /* the database's integers have a sign */
	slot = hash & (recent_count - 1);
	if (recent[slot] == hash)
		return hash;
	recent[slot] = hash;
	key.number = hash;
	if (bpf_map_lookup_elem(&scope_stacks, &key))
		return hash;
	bpf_map_update_elem(&scope_stacks, &key, &no_stack, BPF_NOEXIST);
	walk.stack = bpf_map_lookup_elem(&scope_stacks, &key);
	if (!walk.stack) {
		recent[slot] = 0;
		scope_count_incomplete(stream);
		return 0;
	}
	walk.addresses = addresses;
	bpf_loop(count, locate_frame, &walk, 0);
	return hash;
}

#endif
