/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_LOCKS_H
#define SCOPE_LOCKS_H

/* What a thread waits for, by the value that it expects in memory. */
enum lock_kind {
	LOCK_KIND_LOCK,	 /* a mutex that another thread holds */
	LOCK_KIND_OTHER, /* a condition variable, a semaphore, the end of a thread, ... */
};

/* A wait that has ended. The header has the time of its begin. */
struct lock_wait_event {
	struct scope_header header;
	__u64 duration_ns;
	__u64 address;
	__s64 ret;
	__u64 stack_id; /* 0: not kept */
	__s32 owner_tid;
	__s32 waker_pid;
	__s32 waker_tid;
	enum lock_kind kind;
	char waker_comm[SCOPE_COMM_SIZE];
	__u8 has_owner;
	__u8 has_waker;
	__u8 has_timeout;
	__u8 pad[5];
};

struct lock_wait_summary_key {
	struct scope_process process;
	__u64 address;
	__u64 stack_id;
	enum lock_kind kind;
	__u32 pad;
};

struct lock_wait_summary_value {
	__u64 count;
	__u64 failed;
	__u64 total_ns;
	struct scope_histogram wait;
};

#endif
