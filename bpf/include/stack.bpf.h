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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct scope_stack);
} scope_stacks SEC(".maps");

static const struct scope_stack no_stack;

struct stack_walk {
	struct task_struct *task;
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
	if (!address)
		return 1;
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
 * At the first instruction of a function, whose frame is not yet made: the caller is the return address, and the walk
 * by frame pointers begins with the caller's caller (kernels since 6.12 put the caller in between).
 *
 * addresses: room for STACK_FRAMES + 2 of the running thread's own. Returns the stack's number; 0: none could be kept.
 */
static __always_inline __u64 keep_stack(struct pt_regs *ctx, struct task_struct *task, __u64 *addresses)
{
	struct stack_walk walk = {};
	__u64 caller = 0, hash;
	__u32 first;
	long size;

#if defined(__TARGET_ARCH_x86)
	bpf_probe_read_user(&caller, sizeof(caller), (void *)ctx->sp);
#else
	caller = ((struct user_pt_regs *)ctx)->regs[30];
#endif
	__builtin_memset(addresses, 0, (STACK_FRAMES + 2) * sizeof(*addresses));
	size = bpf_get_stack(ctx, addresses, (STACK_FRAMES + 1) * sizeof(*addresses), BPF_F_USER_STACK);
	if (size <= 0)
		return 0;
	first = addresses[1] == caller; /* 0 is the function itself: not of interest, or room for the caller */
	if (!first)
		addresses[0] = caller;
	hash = mix(task_start_ns(task), BPF_CORE_READ(task, mm, start_stack));
	for (int i = 0; i < STACK_FRAMES; i++) {
		if (!addresses[i + first])
			break;
		hash = mix(hash, addresses[i + first]);
	}
	hash >>= 1; /* the database's integers have a sign */
	if (bpf_map_lookup_elem(&scope_stacks, &hash))
		return hash;
	bpf_map_update_elem(&scope_stacks, &hash, &no_stack, BPF_NOEXIST);
	walk.stack = bpf_map_lookup_elem(&scope_stacks, &hash);
	if (!walk.stack)
		return 0;
	walk.addresses = addresses + first;
	bpf_loop(STACK_FRAMES, locate_frame, &walk, 0);
	return hash;
}

#endif
