/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides in the kernel which tasks are watched: other events never reach a ring. User space fills scope_filter and
 * scope_pids, and may change both while programs run.
 */
#ifndef SCOPE_FILTER_BPF_H
#define SCOPE_FILTER_BPF_H

enum scope_mark {
	SCOPE_EXCLUDED, /* mark of excluded processes; any other mark is the family of a target */
};

SCOPE_SHARED(enum, scope_mark);

struct scope_filter {
	__u32 generation;	    /* incremented with every change of this struct or scope_pids; starts at 1 */
	__u32 family;		    /* only processes with this mark in scope_pids; 0: all */
	char comm[SCOPE_COMM_SIZE]; /* exact name of the thread */
	__u64 cgroup_id;	    /* this cgroup and its child cgroups ... */
	__u64 exe_inode;	    /* address of the executable's inode, see scope_find_inode; 0: any */
	__u32 cgroup_level;	    /* ... which is this deep below the root cgroup */
	__u8 by_comm;
	__u8 by_cgroup;
	__u8 pad[2];
};

struct scope_filter scope_filter SEC(".data.filter");

/*
 * Marks of processes (by host tgid), inherited by their children: SCOPE_EXCLUDED, or the family of a target. Another
 * target gets another family, so descendants of the old target are no longer watched.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __s32);
	__type(value, __u32);
} scope_pids SEC(".maps");

static __always_inline bool scope_tgid_passes(__s32 pid)
{
	__u32 *mark = bpf_map_lookup_elem(&scope_pids, &pid);

	if (mark && *mark == SCOPE_EXCLUDED)
		return false;
	return !scope_filter.family || (mark && *mark == scope_filter.family);
}

static __always_inline bool scope_pid_passes(struct task_struct *task)
{
	return scope_tgid_passes(task->tgid);
}

static __always_inline bool scope_name_passes(const char *name)
{
	char comm[SCOPE_COMM_SIZE] = {};

	bpf_probe_read_kernel_str(comm, sizeof(comm), name);
	return *(__u64 *)comm == *(__u64 *)scope_filter.comm &&
	       *(__u64 *)(comm + 8) == *(__u64 *)(scope_filter.comm + 8);
}

/* The address of the executable's inode. */
static __always_inline __u64 scope_exe_of(struct task_struct *task)
{
	return (__u64)untrusted(task)->mm->exe_file->f_inode; /* 0 for threads of the kernel, which have no mm */
}

/* The parts of the filter whose result may change from one event of a task to the next. */
static __always_inline bool scope_changeable_passes(struct task_struct *task)
{
	if (scope_filter.by_comm && !scope_name_passes(task->comm))
		return false;
	if (scope_filter.exe_inode && scope_filter.exe_inode != scope_exe_of(task))
		return false;
	return !scope_filter.by_cgroup || cgroup_ancestor_id(untrusted(task)->cgroups->dfl_cgrp,
							     scope_filter.cgroup_level) == scope_filter.cgroup_id;
}

/* Are events without a process watched? Only if the whole machine is. */
static __always_inline bool scope_nobody_passes(void)
{
	return !scope_filter.family && !scope_filter.by_comm && !scope_filter.exe_inode && !scope_filter.by_cgroup;
}

/* Is a cgroup the only thing that the filter asks for? Then it can be asked about what belongs to no process, too. */
static __always_inline bool scope_cgroup_alone_decides(void)
{
	return scope_filter.by_cgroup && !scope_filter.family && !scope_filter.by_comm && !scope_filter.exe_inode;
}

/* Is this task watched? For programs that run rarely; others cache the result for the pid, see thread.bpf.h. */
static __always_inline bool scope_passes(struct task_struct *task)
{
	return scope_pid_passes(task) && scope_changeable_passes(task);
}

/* Children inherit the mark. sched_process_fork runs before the child does. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(scope_follow_fork, struct task_struct *parent, struct task_struct *child)
{
	__s32 parent_pid = parent->tgid, child_pid = child->tgid;
	__u32 *mark;

	if (parent_pid == child_pid)
		return 0;
	mark = bpf_map_lookup_elem(&scope_pids, &parent_pid);
	if (mark && bpf_map_update_elem(&scope_pids, &child_pid, mark, BPF_ANY))
		scope_count_loss(0, SCOPE_LOST_FOLLOW);
	return 0;
}

/*
 * Deletes the mark when the process is reaped, so that a reused pid starts without one. Not at its exit: before 6.16,
 * the exit of a thread may look like the last one before the last exit was seen.
 */
SEC("tp_btf/sched_process_free")
int BPF_PROG(scope_forget_process, struct task_struct *task)
{
	__s32 pid = task->tgid;

	if (task->pid == pid)
		bpf_map_delete_elem(&scope_pids, &pid);
	return 0;
}

#endif
