/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What watched processes do and a probe cannot record: counted, so that user space can say so. */
#ifndef SCOPE_UNSEEN_BPF_H
#define SCOPE_UNSEEN_BPF_H

#define NR_IO_URING_ENTER 426 /* on every architecture, and for 32-bit calls */

enum scope_unseen {
	SCOPE_UNSEEN_URING,	 /* submissions to io_uring; not those that the kernel polls for (SQPOLL) */
	SCOPE_UNSEEN_URING_ENDS, /* operations of io_uring that the kernel does not tell the end of */
	SCOPE_UNSEEN_AIO,	 /* operations that are submitted to Linux AIO */
	SCOPE_UNSEEN_KILLS,	 /* kills for lack of memory */
	SCOPE_UNSEEN_KINDS
};

SCOPE_SHARED(enum, scope_unseen);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCOPE_UNSEEN_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} scope_unseen SEC(".maps");

static __always_inline void scope_count_unseen(__u32 kind, __u64 count)
{
	__u64 *counted = bpf_map_lookup_elem(&scope_unseen, &kind);

	if (counted)
		__sync_fetch_and_add(counted, count);
}

/* At the exit of a call: counts what it has submitted to io_uring. */
static __always_inline void scope_count_submissions(struct task_struct *task, struct pt_regs *regs, long ret)
{
	if (syscall_number(regs) == NR_IO_URING_ENTER && ret > 0 && scope_passes(task))
		scope_count_unseen(SCOPE_UNSEEN_URING, ret);
}

#endif
