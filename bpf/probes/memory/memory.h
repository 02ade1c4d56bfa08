/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_MEMORY_H
#define SCOPE_MEMORY_H

/*
 * A process's page faults since recording began. It is a state, which user space reads at any time. The members about
 * the process after the key are from its first fault.
 */
struct memory_faults_key {
	__u64 start_ns;
	__s32 pid;
	__u32 pad;
};

struct memory_faults_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* set by user space in the last row of a process */
	char comm[SCOPE_COMM_SIZE];
	__u64 minor;
	__u64 major;
	__u64 by_read; /* the same faults by what the program did */
	__u64 by_write;
	__u64 by_copy; /* a write to a page that it shared, or that was only mapped for reading */
	__u64 by_exec;
	__u64 by_kernel;
};

/*
 * What a process has in memory and swap space. It is a state, which an iterator and the process's end fill in. The
 * members about the process after the key are its present ones.
 */
struct memory_process_key {
	__u64 start_ns;
	__s32 pid;
	__u32 pad;
};

struct memory_process_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* set by user space, as above */
	char comm[SCOPE_COMM_SIZE];
	__u64 anon_bytes;
	__u64 file_bytes;
	__u64 shared_bytes;
	__u64 swap_bytes;
	__u64 peak_bytes;
};

enum mapping_call { MAPPING_CALL_MMAP, MAPPING_CALL_MUNMAP, MAPPING_CALL_BRK, MAPPING_CALL_MREMAP };

/* A call that changed a process's address space, or failed to. */
struct mapping_event {
	struct scope_header header;
	__s64 grown_bytes;
	__u64 length_bytes;
	__u64 address;
	__u64 total_bytes; /* of the address space, afterwards */
	__u64 stack_id;	   /* 0: not kept */
	__s32 error;
	enum mapping_call call;
	__u32 prot;
	__u32 flags;
	__u8 is_map; /* prot and flags are known */
	__u8 anonymous;
	__u8 pad[6];
};

enum reclaim_kind {
	RECLAIM_KIND_MACHINE,	 /* the machine has little memory */
	RECLAIM_KIND_CGROUP,	 /* a cgroup is at its limit */
	RECLAIM_KIND_COMPACTION, /* there is memory, but not in one piece */
};

/* A stall: a thread that wants memory makes room itself. The header has the time of its begin. */
struct reclaim_event {
	struct scope_header header;
	__u64 duration_ns;
	__u64 reclaimed_bytes;
	enum reclaim_kind kind;
	__u8 order;
	__u8 has_order;
	__u8 has_reclaimed;
	__u8 pad;
};

enum oom_reason { OOM_REASON_MACHINE, OOM_REASON_CGROUP };

/* A process that the kernel kills for its memory. The header describes the victim. */
struct oom_kill_event {
	struct scope_header header;
	__u64 total_bytes;
	__u64 limit_bytes;
	__u64 usage_bytes;
	__u64 limited_cgroup_id;
	enum oom_reason reason;
	__s32 trigger_pid;
	__s32 trigger_tid;
	__s32 score_adj;
	char trigger_comm[SCOPE_COMM_SIZE];
};

#endif
