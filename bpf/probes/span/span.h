/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_SPAN_H
#define SCOPE_SPAN_H

#define SPAN_VALUES 6 /* numbers that a call keeps */

/* How a call ended. */
enum span_ended {
	SPAN_RETURNED,
	SPAN_THREAD_ENDED, /* its thread ended during the call */
	SPAN_NOT_RECORDED, /* only the call's begin is recorded */
	SPAN_MOMENT,	   /* a USDT probe, which is no call */
};

/* A call. Its tail: the kept text. */
struct span_event {
	struct scope_header header; /* ktime_ns: at entry */
	__u64 duration_ns;
	__u64 address; /* of the function, in the process's memory */
	__u64 stack_id;
	__u64 value0;
	__u64 value1;
	__u64 value2;
	__u64 value3;
	__u64 value4;
	__u64 value5;
	struct scope_where where;
	struct scope_text text;
	__u32 place;
	__u16 depth; /* recorded calls of the thread around this one */
	__u8 kept;   /* bit i: value i was readable */
	__u8 has_text;
	__u8 has_duration;
	__u8 has_where;
	__u8 pad[2];
	enum span_ended ended;
};

struct span_summary_key {
	struct scope_process process;
	__u64 address;
	__u32 place;
	__u8 pad[4];
};

struct span_summary_value {
	__u64 count;
	__u64 timed; /* calls with a duration */
	__u64 total_ns;
	__u64 explained; /* calls in `where` */
	struct scope_where where;
	struct scope_histogram latency;
};

#endif
