/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which tasks are watched, decided in the kernel: an event that is filtered out never reaches a ring.
 * User space fills scope_filter and scope_pids and may change both while the programs run.
 */
#ifndef SCOPE_FILTER_BPF_H
#define SCOPE_FILTER_BPF_H

enum scope_verdict {
	SCOPE_UNDECIDED = 0,
	SCOPE_INCLUDED = 1,
	SCOPE_EXCLUDED = 2,
};

struct scope_filter {
	__u32 generation; /* grows with every change of this struct or of scope_pids; starts at 1 */
	__u8 by_pid;	  /* only processes marked SCOPE_INCLUDED in scope_pids */
	__u8 by_comm;
	__u8 by_cgroup;
	__u8 by_exe;
	char comm[SCOPE_COMM_SIZE]; /* of the thread, exactly */
	__u64 cgroup_id;	    /* this cgroup and those below it ... */
	__u64 exe_inode;
	__u32 cgroup_level; /* ... which is this deep */
	__u32 exe_device;   /* the kernel's dev_t: major << 20 | minor */
};

struct scope_filter scope_filter SEC(".data.filter");

/* Verdicts on single processes (by tgid), handed on to their children. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __s32);
	__type(value, __u8);
} scope_pids SEC(".maps");

static __always_inline bool scope_pid_passes(struct task_struct *task)
{
	__s32 pid = task->tgid;
	__u8 *verdict = bpf_map_lookup_elem(&scope_pids, &pid);

	if (verdict && *verdict == SCOPE_EXCLUDED)
		return false;
	return !scope_filter.by_pid || verdict;
}

static __always_inline bool scope_comm_passes(struct task_struct *task)
{
	char comm[SCOPE_COMM_SIZE] = {};

	bpf_probe_read_kernel_str(comm, sizeof(comm), task->comm);
	return *(__u64 *)comm == *(__u64 *)scope_filter.comm &&
	       *(__u64 *)(comm + 8) == *(__u64 *)(scope_filter.comm + 8);
}

static __always_inline bool scope_exe_passes(struct task_struct *task)
{
	struct inode *inode = BPF_CORE_READ(task, mm, exe_file, f_inode);

	return inode && BPF_CORE_READ(inode, i_ino) == scope_filter.exe_inode &&
	       BPF_CORE_READ(inode, i_sb, s_dev) == scope_filter.exe_device;
}

/* The parts of the filter that a running task may pass or fail from one event to the next. */
static __always_inline bool scope_changeable_passes(struct task_struct *task)
{
	if (scope_filter.by_comm && !scope_comm_passes(task))
		return false;
	if (scope_filter.by_exe && !scope_exe_passes(task))
		return false;
	return !scope_filter.by_cgroup ||
	       cgroup_ancestor_id(task->cgroups->dfl_cgrp, scope_filter.cgroup_level) == scope_filter.cgroup_id;
}

/* Is this task watched? For programs that run rarely; the others keep the pid's verdict, see thread.bpf.h. */
static __always_inline bool scope_passes(struct task_struct *task)
{
	return scope_pid_passes(task) && scope_changeable_passes(task);
}

/* A verdict holds for the children too. sched_process_fork runs before the child first does. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(scope_follow_fork, struct task_struct *parent, struct task_struct *child)
{
	__s32 parent_pid = parent->tgid, child_pid = child->tgid;
	__u8 *verdict;

	if (parent_pid == child_pid)
		return 0;
	verdict = bpf_map_lookup_elem(&scope_pids, &parent_pid);
	if (verdict && bpf_map_update_elem(&scope_pids, &child_pid, verdict, BPF_ANY))
		scope_count_loss(0, SCOPE_LOST_FOLLOW);
	return 0;
}

/* The last thread takes the verdict along, so that a reused pid starts without one. Attached after the probe's own. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(scope_forget_process, struct task_struct *task)
{
	__s32 pid = task->tgid;

	if (is_last_thread(ctx, task))
		bpf_map_delete_elem(&scope_pids, &pid);
	return 0;
}

#endif
