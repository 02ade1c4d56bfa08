/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_PYTHON_H
#define SCOPE_PYTHON_H

/* How a call ended, as far as the way to attach tells. */
enum python_ended {
	PYTHON_ENDED,	 /* it returned, yielded or raised */
	PYTHON_RETURNED, /* it returned or yielded */
	PYTHON_RAISED,	 /* an exception left it */
};

/* A call. Its tail: the names of the function and the file. */
struct python_call_event {
	struct scope_header header; /* ktime_ns: at entry */
	__u64 duration_ns;
	__u64 self_ns;
	struct scope_text function;
	struct scope_text file;
	__u32 line;
	__u32 depth;
	__u8 has_function;
	__u8 has_file;
	__u8 pad[2];
	enum python_ended ended;
};

/* The names of a function in summaries, once per interval. */
struct python_code_event {
	struct scope_header header;
	__u64 code;
	struct scope_text function;
	struct scope_text file;
	__u8 has_function;
	__u8 has_file;
	__u8 pad[6];
};

struct python_call_summary_key {
	struct scope_process process;
	__u64 code; /* a hash of the names */
};

struct python_call_summary_value {
	__u64 calls;
	__u64 total_ns;
	__u64 self_ns;
	struct scope_histogram latency;
};

/* A sample of a thread on a CPU. */
struct python_sample_event {
	struct scope_header header;
	__u64 duration_ns; /* the time that it stands for */
	__u64 stack_id;	   /* 0: no Python frame, or not kept */
};

struct python_sample_summary_key {
	struct scope_process process;
	__u64 stack_id;
};

struct python_sample_summary_value {
	__u64 count;
	__u64 total_ns;
};

#endif
