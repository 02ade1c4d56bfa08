/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What probes need that keep account of what processes hold, in gauges. */
#ifndef SCOPE_HELD_BPF_H
#define SCOPE_HELD_BPF_H

/* The running process, read with helpers, since this is rare; see running_start_ns(). */
static __always_inline void fill_owner(__u64 *cgroup_id, __u32 *uid, char *comm)
{
	struct task_struct *leader = BPF_CORE_READ(bpf_get_current_task_btf(), group_leader);

	*cgroup_id = bpf_get_current_cgroup_id();
	*uid = bpf_get_current_uid_gid();
	bpf_core_read(comm, SCOPE_COMM_SIZE, &leader->comm);
}

static __always_inline void raise(__u64 *peak, __u64 value)
{
	for (int i = 0; i < 8; i++) { /* other threads may raise the peak meanwhile */
		__u64 seen = *(volatile __u64 *)peak;

		if (seen >= value || __sync_val_compare_and_swap(peak, seen, value) == seen)
			return;
	}
}

#endif
