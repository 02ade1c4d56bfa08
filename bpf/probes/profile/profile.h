/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_PROFILE_H
#define SCOPE_PROFILE_H

/* What a thread did. */
enum profile_part {
	PROFILE_ON_CPU,
	PROFILE_RUN_QUEUE, /* it was runnable, and waited for a CPU */
	PROFILE_BLOCKED,
};

/* A sample of a thread on a CPU, or one time off it. */
struct profile_event {
	struct scope_header header; /* ktime_ns: of the sample; of other parts, when they began */
	__u64 duration_ns;	    /* the time that a sample stands for; of other parts, how long they lasted */
	__u64 stack_id;		    /* 0: not kept */
	enum profile_part part_id;
	__u32 pad;
};

struct profile_summary_key {
	struct scope_process process;
	__u64 stack_id;
	char thread_comm[SCOPE_COMM_SIZE];
	enum profile_part part_id;
	__u32 pad;
};

struct profile_summary_value {
	__u64 count;
	__u64 total_ns;
};

#endif
