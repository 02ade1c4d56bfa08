/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the fields of a task. Pointers come from the kernel's BTF, so plain loads work. */
#ifndef SCOPE_TASK_BPF_H
#define SCOPE_TASK_BPF_H

static __always_inline __u64 task_start_ns(struct task_struct *task)
{
	return untrusted(task)->group_leader->start_boottime;
}

static __always_inline __u64 task_cgroup_id(struct task_struct *task)
{
	return untrusted(task)->cgroups->dfl_cgrp->kn->id;
}

/* Byte by byte: plain loads read one element each, and sixteen loads are cheaper than a helper call. */
static __always_inline void copy_comm(char comm[SCOPE_COMM_SIZE], struct task_struct *task)
{
#pragma unroll
	for (int i = 0; i < SCOPE_COMM_SIZE; i++)
		comm[i] = task->comm[i];
}

static __always_inline void fill_identity(struct scope_identity *identity, struct task_struct *task)
{
	identity->start_ns = task_start_ns(task);
	identity->cgroup_id = task_cgroup_id(task);
	identity->pid = task->tgid;
	identity->tid = task->pid;
	identity->uid = untrusted(task)->cred->uid.val;
	copy_comm(identity->comm, task);
	__builtin_memset(identity->pad, 0, sizeof(identity->pad));
}

static __always_inline void fill_process(struct scope_process *process, struct task_struct *task)
{
	process->start_ns = task_start_ns(task);
	process->cgroup_id = task_cgroup_id(task);
	process->pid = task->tgid;
	process->uid = untrusted(task)->cred->uid.val;
	copy_comm(process->comm, untrusted(task)->group_leader);
}

/*
 * Data of the running process, for programs with many paths. The verifier checks a global function only once. And since
 * 6.2, for each pointer that is followed, it searches all type names of the kernel, which takes a millisecond.
 */
__noinline __u64 running_start_ns(void)
{
	return task_start_ns(bpf_get_current_task_btf());
}

__noinline int fill_running_process(struct scope_process *process)
{
	if (process) /* never NULL, but the verifier does not know */
		fill_process(process, bpf_get_current_task_btf());
	return 0;
}

#endif
