/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Return addresses that the kernel has replaced by its trampoline's, to run programs when the function returns; ours,
 * or those of another tracer. The kernel keeps the functions' own ones in a list, the innermost call first.
 */
#ifndef SCOPE_RETURNS_BPF_H
#define SCOPE_RETURNS_BPF_H

#define RETURNS_KEPT 64 /* of a thread: MAX_URETPROBE_DEPTH in kernel/events/uprobes.c */

struct return_search {
	__u64 slot;
	struct return_instance *call;
	__u64 address;
};

static long search_return(__u32 index, struct return_search *search)
{
	struct return_instance *call = search->call;
	__u64 stack;

	if (!call)
		return 1;
	stack = BPF_CORE_READ(call, stack);
	if (stack == search->slot)
		search->address = BPF_CORE_READ(call, orig_ret_vaddr);
	if (stack >= search->slot)
		return 1;
	search->call = BPF_CORE_READ(call, next);
	return 0;
}

/* The running thread's own return address that this one, read from this place of its stack, stands for. */
__noinline __u64 own_return(__u64 address, __u64 slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct return_search search = {.slot = slot, .address = address};
	struct xol_area *area = untrusted(task)->mm->uprobes_state.xol_area;

	if (!area || address != area->vaddr)
		return address;
	search.call = BPF_CORE_READ(task, utask, return_instances);
	bpf_loop(RETURNS_KEPT, search_return, &search, 0);
	return search.address;
}

#endif
