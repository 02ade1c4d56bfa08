/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What processes have in memory: read from their address spaces, as /proc/PID/status does, once an interval. */
#ifndef SCOPE_MEMORY_RESIDENT_BPF_H
#define SCOPE_MEMORY_RESIDENT_BPF_H

SCOPE_GAUGE(memory_process, 65536);

static __always_inline void read_resident(struct memory_process_value *value, struct task_struct *task,
					  struct mm_struct *mm)
{
	struct task_struct *leader = untrusted(task)->group_leader;
	__u64 anon = pages_of_kind(mm, MM_ANONPAGES), file = pages_of_kind(mm, MM_FILEPAGES);
	__u64 shared = pages_of_kind(mm, MM_SHMEMPAGES), now = anon + file + shared;
	__u64 peak = BPF_CORE_READ(mm, hiwater_rss);

	value->cgroup_id = task_cgroup_id(task);
	value->uid = untrusted(task)->cred->uid.val;
	copy_comm(value->comm, leader);
	value->anon_bytes = anon << scope_page_shift;
	value->file_bytes = file << scope_page_shift;
	value->shared_bytes = shared << scope_page_shift;
	value->swap_bytes = pages_of_kind(mm, MM_SWAPENTS) << scope_page_shift;
	value->peak_bytes = (peak > now ? peak : now) << scope_page_shift;
}

static const struct memory_process_value memory_process_none;

static __always_inline int visit(struct task_struct *task)
{
	struct memory_process_key key = {.start_ns = task_start_ns(task), .pid = task->tgid};
	struct mm_struct *mm = untrusted(task)->mm;
	struct memory_process_value *value;

	if (!mm || !scope_passes(task))
		return 0;
	value = bpf_map_lookup_elem(&memory_process, &key);
	if (!value)
		value = scope_insert(&memory_process, &key, &memory_process_none, stream_memory_process);
	if (value)
		read_resident(value, task, mm);
	return 0;
}

/* Visits each process once: by its first thread or, if that one has ended, by any of the others. */
SEC("iter/task")
int memory_visit(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct *leader;

	if (!task || task->flags & PF_KTHREAD)
		return 0;
	leader = untrusted(task)->group_leader;
	if (task->pid != task->tgid && leader->mm)
		return 0;
	return visit(task);
}

/*
 * A process's last state. Before 6.16, the memory is gone by now: then there is the last reading, if there was one
 * before the process ended.
 */
SEC("tp_btf/sched_process_exit")
int memory_exit(unsigned long long *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	return is_last_thread(ctx, task) ? visit(task) : 0;
}

#endif
