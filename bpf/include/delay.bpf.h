/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long the threads of a process have waited for a CPU, as the kernel counts it: a thread that waits, once it runs.
 */
#ifndef SCOPE_DELAY_BPF_H
#define SCOPE_DELAY_BPF_H

#define DELAY_THREADS 1024 /* the first of a process */
#define PF_EXITING 0x4	   /* include/linux/sched.h */

struct delay_walk {
	__u64 head; /* addresses of list nodes */
	__u64 node;
	__u64 own; /* of the thread that asks */
	__u64 sum_ns;
};

static long add_delay(__u32 index, struct delay_walk *walk)
{
	struct task_struct *task = container_of((struct list_head *)walk->node, struct task_struct, thread_node);

	if (!walk->node || walk->node == walk->head)
		return 1;
	if (walk->node != walk->own && !(BPF_CORE_READ(task, flags) & PF_EXITING))
		walk->sum_ns += BPF_CORE_READ(task, sched_info.run_delay);
	walk->node = (__u64)BPF_CORE_READ(task, thread_node.next);
	return 0;
}

/* The sum over the other threads of the running one's process, without those that end; 0: this kernel has no counts. */
static __noinline __u64 delay_of_others(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct delay_walk walk = {.own = (__u64)&task->thread_node,
				  .head = (__u64)&untrusted(task)->signal->thread_head};

	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return 0;
	walk.node = (__u64)BPF_CORE_READ(task, signal, thread_head.next);
	bpf_loop(DELAY_THREADS, add_delay, &walk, 0);
	return walk.sum_ns;
}

#endif
