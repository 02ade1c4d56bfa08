/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_GGML_H
#define SCOPE_GGML_H

#define GGML_NAMES 72 /* bytes of a tensor in which its name is, in every known layout */

enum ggml_function {
	GGML_GRAPH_COMPUTE,		  /* (graph, plan): on CPUs */
	GGML_BACKEND_GRAPH_COMPUTE,	  /* (backend, graph) */
	GGML_BACKEND_GRAPH_COMPUTE_ASYNC, /* (backend, graph) */
	GGML_BACKEND_SCHED_GRAPH_COMPUTE, /* (scheduler, graph) */
	GGML_BACKEND_SCHED_GRAPH_COMPUTE_ASYNC,
	GGML_ALIGNED_MALLOC,  /* (size) */
	GGML_ALIGNED_FREE,    /* (address, size) */
	GGML_CUDA_POOL_ALLOC, /* (pool, size, where the real size is returned) */
	GGML_CUDA_POOL_FREE,  /* (pool, address, size) */
	/* Functions of the CUDA backend; `destination` of struct ggml_place is the argument with the result's tensor.
	 */
	GGML_CUDA_MUL_MAT_VEC_Q,
	GGML_CUDA_MUL_MAT_VEC_F,
	GGML_CUDA_MUL_MAT_VEC,
	GGML_CUDA_MUL_MAT_Q,
	GGML_CUDA_MUL_MAT_F,
	GGML_CUDA_MUL_MAT_CUBLAS,
	GGML_CUDA_MUL_MAT_BATCHED_CUBLAS,
	GGML_CUDA_OP_MUL_MAT_VEC_Q,
	GGML_CUDA_OP_MUL_MAT_VEC_F,
	GGML_CUDA_OP_MUL_MAT_VEC,
	GGML_CUDA_OP_MUL_MAT_Q,
	GGML_CUDA_OP_MUL_MAT_CUBLAS,
	GGML_CUDA_OP_DEQUANTIZE_MUL_MAT_VEC,
	GGML_CUDA_FLASH_ATTN_EXT,
	GGML_CUDA_CPY,
	GGML_CUDA_SET_DEVICE,	/* (device) */
	GGML_CUDA_GRAPH_LAUNCH, /* cudaGraphLaunch and cuGraphLaunch: (graph, stream) */
};

/* A computation of a graph. */
struct ggml_graph_event {
	struct scope_header header; /* ktime_ns: at entry */
	__u64 duration_ns;
	struct scope_where where;
	__u32 nodes;
	__u32 leafs;
	__s32 result;
	enum ggml_function function;
	__u8 has_shape;
	__u8 has_result;
	__u8 nested;
	__u8 pad[5];
};

/* An allocation that succeeded, or a free. */
struct ggml_allocation_event {
	struct scope_header header;
	__u64 bytes;
	__u64 address;
	__u64 stack_id; /* of an allocation; 0: none */
	enum ggml_function function;
	__u8 has_bytes;
	__u8 pad[3];
};

/* A call of a function of the CUDA backend, or a launch of a CUDA graph by ggml. */
struct ggml_operation_event {
	struct scope_header header; /* ktime_ns: at entry */
	__u64 duration_ns;
	/* Copied from the tensor; right only if its layout is the known one: */
	__s64 size0;
	__s64 size1;
	__s64 size2;
	__s64 size3;
	__u32 op_id;
	__u32 type_id;
	char names[GGML_NAMES];
	enum ggml_function function;
	__s32 device;
	__u8 has_tensor;
	__u8 has_device;
	__u8 returned;
	__u8 nested;
	__u8 pad[4];
};

enum ggml_memory_kind {
	GGML_HOST,
	GGML_POOL,
};

struct ggml_memory_key {
	__u64 start_ns;
	__s32 pid;
	enum ggml_memory_kind memory;
};

struct ggml_memory_value {
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
	__u64 unknown_frees; /* of memory allocated before recording */
};

/* Unfreed memory by the stack of the allocation. */
struct ggml_live_key {
	__u64 start_ns;
	__u64 stack_id;
	__s32 pid;
	enum ggml_memory_kind memory;
};

struct ggml_live_value {
	__u64 cgroup_id;
	__u32 uid;
	__u32 ended; /* set by user space, as above */
	char comm[SCOPE_COMM_SIZE];
	__u64 live_bytes;
	__u64 live_count;
	__u64 allocations; /* since recording began */
};

#endif
