/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_HEAP_H
#define SCOPE_HEAP_H

/*
 * A process's unfreed memory. It is a state, which user space reads at any time. The members about the process after
 * the key are from the first allocation. If allocations are sampled, all figures are estimates.
 */
struct heap_memory_key {
	__u64 start_ns;
	__s32 pid;
	__u32 pad;
};

struct heap_memory_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* set by user space in the last row of a process */
	char comm[SCOPE_COMM_SIZE];
	__u64 live_bytes;
	__u64 live_count;
	__u64 peak_bytes;
	__u64 allocated_bytes; /* since recording began */
	__u64 allocations;
	__u64 frees;
	__u64 unknown_frees; /* of memory allocated before recording, or by the parent before the fork */
	__u64 sample_bytes;  /* bytes; 0: every allocation is recorded */
};

/* Unfreed memory by the stack of the allocation. */
struct heap_live_key {
	__u64 start_ns;
	__u64 stack_id;
	__s32 pid;
	__u32 pad;
};

struct heap_live_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* set by user space, as above */
	char comm[SCOPE_COMM_SIZE];
	__u64 live_bytes;
	__u64 live_count;
	__u64 allocations; /* since recording began */
	__u64 since_us;	   /* sum of the live allocations' times since the process's start */
	__u64 sample_bytes;
};

#endif
