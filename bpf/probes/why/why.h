/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_WHY_H
#define SCOPE_WHY_H

/* What a thread does with its time: always exactly one of these. */
enum why_part {
	WHY_ON_CPU,
	WHY_RUN_QUEUE, /* it could run, and waits for a CPU */
	WHY_BLOCKED,
};

/* What a thread is blocked in that is in no syscall, in the place of a syscall's number. */
enum why_blocked {
	WHY_IN_KERNEL = -1, /* in no syscall */
	WHY_IN_PAGE_FAULT = -2,
	WHY_IN_STOP = -3, /* a signal or a debugger stopped it */
};

struct why_summary_key {
	struct scope_process process;
	__u64 stack_id;	 /* of user space, where it was blocked; 0: not kept */
	__u64 inode;	 /* of the file that a blocked call was given; 0: none */
	__u32 device;	 /* the kernel's dev_t: major << 20 | minor */
	__u32 file_type; /* S_IFMT bits of the mode */
	enum why_part part;
	__s32 tid;
	__s32 nr;    /* of the call that it is blocked in, or an enum why_blocked; 0 in other parts */
	__u8 compat; /* the number is that of a 32-bit call */
	__u8 pad[3];
	char thread_comm[SCOPE_COMM_SIZE];
};

struct why_summary_value {
	__u64 count; /* times that it was over */
	__u64 total_ns;
	__u64 on_cpu_ns; /* the same time again, in the one of these three that it belongs to */
	__u64 run_queue_ns;
	__u64 blocked_ns;
	struct scope_histogram duration;
};

enum page_fault_kind {
	PAGE_FAULT_MINOR, /* the page was in memory, or is a new one */
	PAGE_FAULT_MAJOR, /* it had to be read */
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

/* The path of a file that a thread is blocked at, when the summary meets the file for the first time in an interval. */
struct blocked_file_event {
	struct scope_header header;
	struct scope_path path;
	__u64 inode;
	__u32 device;
	__u8 path_truncated;
	__u8 pad[3];
};

#endif
