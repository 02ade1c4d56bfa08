/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of every event. Python reads these layouts from BTF and never defines them again. */
#ifndef SCOPE_EVENT_H
#define SCOPE_EVENT_H

#define SCOPE_COMM_SIZE 16

/*
 * Every event begins with this header. An event may be about another task than the running one: packets and disk
 * requests are handled in interrupts. An event without a process has pid 0, and its columns about the process are null.
 */
struct scope_header {
	__u64 ktime_ns;	 /* CLOCK_BOOTTIME; the stream defines which moment */
	__u64 start_ns;	 /* when the process started, CLOCK_BOOTTIME; with pid, it identifies a process */
	__u64 cgroup_id; /* cgroup v2 */
	__s32 pid;	 /* thread group id, initial pid namespace; 0: no process */
	__s32 tid;
	__u32 uid;
	__u16 cpu;
	__u16 stream; /* index among the probe's event streams, set at load */
	char comm[SCOPE_COMM_SIZE];
};

/* The identity in a header. A probe stores it, to emit an event later while another task runs. */
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
 * Text of any length is in the "tail", after the fixed part of a record. These structs refer to a piece of the tail;
 * their type says how to read it.
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

/* A network address, which becomes text: 10.0.0.1, 2001:db8::1. */
struct scope_address {
	__u32 family;	/* AF_INET: the first four bytes; AF_INET6: all; any other: no address, the column is null */
	__u8 bytes[16]; /* as in a packet */
};

/*
 * The process in a summary's key: fields as in the header, but comm is the name of the main thread. A key without this
 * struct counts for the whole machine.
 */
struct scope_process {
	__u64 start_ns;
	__u64 cgroup_id;
	__s32 pid;
	__u32 uid;
	char comm[SCOPE_COMM_SIZE];
};

/* A file in a summary's key. */
struct scope_file {
	__u64 inode;	 /* 0: no file */
	__u32 device;	 /* the kernel's dev_t: major << 20 | minor */
	__u32 file_type; /* S_IFMT bits of the mode */
};

/* The path of a file; the only member of events that are emitted when a summary first counts a file in an interval. */
struct scope_file_path {
	struct scope_header header;
	struct scope_file file;
	struct scope_path path;
	__u8 path_truncated; /* the directories nearest to the root are missing */
	__u8 pad[7];
};

/* Where the time of a call went: parts that add up to the call's duration, and the page faults in them. */
struct scope_where {
	__u64 on_cpu_ns;
	__u64 run_queue_ns;
	__u64 blocked_ns;
	__u64 stopped_ns;
	__u64 unknown_ns;
	__u64 page_fault_ns;
};

#define SCOPE_HISTOGRAM_BUCKETS 40

/* Durations in powers of two: bucket i counts [2^i, 2^(i+1)) ns; the first bucket includes 0, the last all above. */
struct scope_histogram {
	__u64 bucket[SCOPE_HISTOGRAM_BUCKETS];
};

#endif
