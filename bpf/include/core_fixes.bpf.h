/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every difference between kernels that the programs meet, decided by what the running kernel's BTF has.
 * Each cites the commit that made the difference.
 */
#ifndef SCOPE_CORE_FIXES_BPF_H
#define SCOPE_CORE_FIXES_BPF_H

struct task_struct___before_5_14 {
	volatile long state;
} __attribute__((preserve_access_index));

/* 2f064a59a11f ("sched: Change task_struct::state", 5.14) renamed and narrowed the field. */
static __always_inline __u32 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ(old, state);
}

struct cgroup___before_6_1 {
	__u64 ancestor_ids[1];
} __attribute__((preserve_access_index));

/* 7f203bc89eb6 ("cgroup: Replace cgroup->ancestor_ids[] with ->ancestors[]", 6.1). */
static __always_inline __u64 cgroup_ancestor_id(struct cgroup *cgroup, __u32 level)
{
	struct cgroup___before_6_1 *old = (void *)cgroup;
	struct cgroup *ancestor = 0;
	__u64 id = 0;

	if (level > (__u32)BPF_CORE_READ(cgroup, level))
		return 0;
	if (bpf_core_field_exists(old->ancestor_ids)) {
		bpf_probe_read_kernel(&id, sizeof(id), &old->ancestor_ids[level]);
		return id;
	}
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor), &cgroup->ancestors[level]);
	return ancestor ? BPF_CORE_READ(ancestor, kn, id) : 0;
}

#endif
