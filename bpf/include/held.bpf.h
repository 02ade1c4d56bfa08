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

/*
 * Declares the gauge `NAME`, see SCOPE_GAUGE, whose values have the process in cgroup_id, uid and comm. The process
 * itself makes an entry when it first needs one.
 *
 * NAME_entry(key): the entry; NULL: the map is full, which is counted as a loss.
 */
#define SCOPE_HELD(name, entries)                                                                                      \
	SCOPE_GAUGE(name, entries);                                                                                    \
	static const struct name##_value name##_none;                                                                  \
	static __always_inline struct name##_value *name##_entry(const struct name##_key *key)                         \
	{                                                                                                              \
		struct name##_value *value = bpf_map_lookup_elem(&name, key);                                          \
                                                                                                                       \
		if (value)                                                                                             \
			return value;                                                                                  \
		value = scope_insert(&name, key, &name##_none, stream_##name);                                         \
		if (value)                                                                                             \
			fill_owner(&value->cgroup_id, &value->uid, value->comm);                                       \
		return value;                                                                                          \
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
