/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_WHY_H
#define SCOPE_WHY_H

/* The state of a thread: always exactly one of these. */
enum why_part {
	WHY_ON_CPU,
	WHY_RUN_QUEUE, /* runnable, waits for a CPU */
	WHY_BLOCKED,
};

/* Why a thread is blocked outside of syscalls; takes the place of the syscall's number. */
enum why_blocked {
	WHY_IN_KERNEL = -1,
	WHY_IN_PAGE_FAULT = -2,
	WHY_IN_STOP = -3, /* a signal or a debugger stopped it */
};

struct why_summary_key {
	struct scope_process process;
	__u64 stack_id;		/* the user stack at which the thread blocked; 0: not kept */
	struct scope_file file; /* the file that a blocked call waits for */
	enum why_part part;
	__s32 tid;
	__s32 nr;		     /* if blocked: the call's number or an enum why_blocked; else 0 */
	struct scope_address remote; /* the peer of that file, if it is a socket that has one */
	__u16 remote_port;
	__u8 compat; /* the number is that of a 32-bit call */
	__u8 pad[5];
	char thread_comm[SCOPE_COMM_SIZE];
};

struct why_summary_value {
	__u64 count; /* how often the part ended */
	__u64 total_ns;
	__u64 on_cpu_ns; /* total_ns again, in one of these three, by part */
	__u64 run_queue_ns;
	__u64 blocked_ns;
	struct scope_histogram duration;
};

enum page_fault_kind {
	PAGE_FAULT_MINOR, /* the page was in memory, or is new */
	PAGE_FAULT_MAJOR, /* the page was read from disk */
};

struct page_fault_summary_key {
	struct scope_process process;
	enum page_fault_kind kind;
	__s32 tid;
	char thread_comm[SCOPE_COMM_SIZE];
};

struct page_fault_summary_value {
	__u64 count;
	__u64 total_ns;
	struct scope_histogram duration;
};

struct blocked_file_event {
	struct scope_file_path path;
};

#endif
