/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts every event is made of. BTF carries these layouts to Python, which never restates them. */
#ifndef SCOPE_EVENT_H
#define SCOPE_EVENT_H

#define SCOPE_COMM_SIZE 16

/*
 * Every event begins with this. Whose it is need not be the task that runs: a packet or a disk request is learnt of in
 * an interrupt. What is of no process has pid 0, and its columns of a process are null.
 */
struct scope_header {
	__u64 ktime_ns;	 /* CLOCK_BOOTTIME; what moment it marks is said by the stream */
	__u64 start_ns;	 /* when the process started, CLOCK_BOOTTIME: tells a reused pid apart */
	__u64 cgroup_id; /* cgroup v2 */
	__s32 pid;	 /* thread group id, initial pid namespace; 0: no process */
	__s32 tid;
	__u32 uid;
	__u16 cpu;
	__u16 stream; /* index among the probe's event streams, given at load */
	char comm[SCOPE_COMM_SIZE];
};

/* Whose an event is, as its header says it: what a probe keeps while another task may run. */
struct scope_identity {
	__u64 start_ns;
	__u64 cgroup_id;
	__s32 pid;
	__s32 tid;
	__u32 uid;
	char comm[SCOPE_COMM_SIZE];
	__u8 pad[4];
};

/*
 * Text of any length lies behind the fixed part of its record, the "tail"; these name a piece of it.
 * The type says how the piece is read.
 */
struct scope_text { /* one string */
	__u32 offset;
	__u32 length;
};

struct scope_text_list { /* strings, each ended by a NUL */
	__u32 offset;
	__u32 length;
};

struct scope_path { /* directories leaf first, each ended by a '/', then a NUL, then a name below them */
	__u32 offset;
	__u32 length;
};

/* An address in a network, which becomes text: 10.0.0.1, 2001:db8::1. */
struct scope_address {
	__u32 family;	/* AF_INET: the first four bytes; AF_INET6: all; any other: no address, the column is null */
	__u8 bytes[16]; /* as in a packet */
};

/*
 * What a summary is kept by, if that is a process: as the header has it, with the name of its main thread. A key
 * without it counts for the whole machine.
 */
struct scope_process {
	__u64 start_ns;
	__u64 cgroup_id;
	__s32 pid;
	__u32 uid;
	char comm[SCOPE_COMM_SIZE];
};

#define SCOPE_HISTOGRAM_BUCKETS 40

/* Durations by powers of two: bucket i counts those of [2^i, 2^(i+1)) ns; the first takes 0, the last all above. */
struct scope_histogram {
	__u64 bucket[SCOPE_HISTOGRAM_BUCKETS];
};

#endif
