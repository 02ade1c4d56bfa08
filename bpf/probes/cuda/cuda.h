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
	__u64 live_bytes; /* of this kind on this device, after an allocation or free */
	__u64 stack_id;	  /* for allocations; 0: not kept */
	__s32 result;
	__s32 device;
	__u16 function_id; /* number of the function */
	__u8 nested;	   /* inside another recorded call of this thread */
	__u8 copy_kind;	   /* enum copy_kind */
	__u8 has_bytes;
	__u8 has_ptr;
	__u8 has_src;
	__u8 has_dst;
	__u8 has_stream;
	__u8 has_device;
	__u8 has_live;
	__u8 returned;	/* 0: the thread ended during the call */
	__u8 memory_id; /* enum cuda_memory_kind of the allocated or freed memory */
	__u8 pad[3];
};

struct cuda_launch_event {
	struct scope_header header;
	__u64 duration_ns;
	__u64 handle; /* the launched kernel: address of its host function, or the driver's handle */
	__u64 inode;  /* of the file with the kernel's host function; 0: unknown */
	__u64 offset; /* of the host function in the file */
	__u64 arguments;
	__u64 stream;
	__u64 stack_id;
	__u32 name; /* number of the name for which the driver returned the handle; 0: none */
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
	__u64 handle; /* 0 if the code or the name is known */
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
 * A process's unfreed memory by device and kind. It is a state, which user space reads at any time. The members about
 * the process after the key are from the first allocation.
 */
struct cuda_memory_key {
	__u64 start_ns;
	__s32 pid;
	__s32 device_id; /* -1: unknown */
	__u32 memory_id; /* enum cuda_memory_kind */
	__u32 pad;
};

struct cuda_memory_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* set by user space in the last row of a process */
	char comm[SCOPE_COMM_SIZE];
	__u64 live_bytes;
	__u64 live_count;
	__u64 peak_bytes;
	__u64 allocated_bytes; /* since recording began */
	__u64 allocations;
	__u64 frees;
	__u64 unknown_frees;  /* of memory allocated before recording */
	__u64 implicit_frees; /* by the end of a context or program, or by an unrecorded call */
};

/* Unfreed memory by the stack of the allocation. */
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
	__u32 ended; /* set by user space, as above */
	char comm[SCOPE_COMM_SIZE];
	__u64 live_bytes;
	__u64 live_count;
	__u64 allocations; /* since recording began */
	__u64 since_us;	   /* sum of the live allocations' times since the process's start */
};

#endif
