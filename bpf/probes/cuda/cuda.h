/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_CUDA_H
#define SCOPE_CUDA_H

struct cuda_call_event {
	struct scope_header header;
	__u64 duration_ns;
	__u64 bytes;
	__u64 ptr;
	__u64 src;
	__u64 dst;
	__u64 stream;
	__u64 live_bytes; /* of this kind of memory on this device, after an allocation or a free */
	__u64 stack_id;	  /* of allocations; 0: not kept */
	__s32 result;
	__s32 device;
	__u16 function_id; /* which of those that user space attached */
	__u8 nested;	   /* inside another call of this thread that is recorded */
	__u8 copy_kind;	   /* enum copy_kind */
	__u8 has_bytes;
	__u8 has_ptr;
	__u8 has_src;
	__u8 has_dst;
	__u8 has_stream;
	__u8 has_device;
	__u8 has_live;
	__u8 returned;	/* 0: its thread ended in it */
	__u8 memory_id; /* enum cuda_memory_kind: of what is allocated or freed */
	__u8 pad[3];
};

struct cuda_launch_event {
	struct scope_header header;
	__u64 duration_ns;
	__u64 handle; /* what the program launched: the address of host code, or the driver's handle */
	__u64 inode;  /* of the file that the kernel's host code lies in; 0: not known */
	__u64 offset; /* of the code in it */
	__u64 arguments;
	__u64 stream;
	__u64 stack_id;
	__u32 name; /* number of the name that the driver gave out the handle for; 0: none */
	__u32 grid_x;
	__u32 grid_y;
	__u32 grid_z;
	__u32 block_x;
	__u32 block_y;
	__u32 block_z;
	__u32 shared_bytes;
	__s32 result;
	__s32 device;
	__u16 function_id;
	__u8 nested;
	__u8 has_device;
	__u8 returned;
	__u8 pad[3];
};

struct cuda_call_summary_key {
	struct scope_process process;
	__u16 function_id;
	__u8 nested;
	__u8 pad[5];
};

struct cuda_call_summary_value {
	__u64 count;
	__u64 errors;
	__u64 bytes;
	__u64 total_ns;
	struct scope_histogram latency;
};

struct cuda_launch_summary_key {
	struct scope_process process;
	__u64 handle; /* 0 where the code or the name is known */
	__u64 inode;
	__u64 offset;
	__u32 name;
	__u16 function_id;
	__u8 nested;
	__u8 pad;
};

struct cuda_launch_summary_value {
	__u64 count;
	__u64 errors;
	__u64 total_ns;
	struct scope_histogram latency;
};

/*
 * What a process holds, by device and kind of memory. It is a state: user space reads it when it likes.
 * The members after the key that say who it is are those of the first allocation.
 */
struct cuda_memory_key {
	__u64 start_ns;
	__s32 pid;
	__s32 device_id; /* -1: not known */
	__u32 memory_id; /* enum cuda_memory_kind */
	__u32 pad;
};

struct cuda_memory_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* set by user space in what it reads last of a process */
	char comm[SCOPE_COMM_SIZE];
	__u64 live_bytes;
	__u64 live_count;
	__u64 peak_bytes;
	__u64 allocated_bytes; /* ever */
	__u64 allocations;
	__u64 frees;
	__u64 unknown_frees;  /* of what was allocated before we watched */
	__u64 implicit_frees; /* with a context or the program, or in ways that are not seen */
};

/* The same by stack of the allocations. */
struct cuda_live_key {
	__u64 start_ns;
	__u64 stack_id;
	__s32 pid;
	__s32 device_id;
	__u32 memory_id;
	__u32 pad;
};

struct cuda_live_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* likewise */
	char comm[SCOPE_COMM_SIZE];
	__u64 live_bytes;
	__u64 live_count;
	__u64 allocations; /* ever */
	__u64 since_us;	   /* times at which those that live were allocated, from the process's start, added up */
};

#endif
