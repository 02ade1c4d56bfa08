/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_NCCL_H
#define SCOPE_NCCL_H

/* ncclDataType_t in nccl.h of NCCL 2.32. */
enum nccl_dtype {
	NCCL_INT8,
	NCCL_UINT8,
	NCCL_INT32,
	NCCL_UINT32,
	NCCL_INT64,
	NCCL_UINT64,
	NCCL_FLOAT16,
	NCCL_FLOAT32,
	NCCL_FLOAT64,
	NCCL_BFLOAT16,
	NCCL_FLOAT8E4M3,
	NCCL_FLOAT8E5M2,
};

/* ncclRedOp_t in nccl.h; higher numbers are operators that the program has made. */
enum nccl_op {
	NCCL_SUM,
	NCCL_PROD,
	NCCL_MAX,
	NCCL_MIN,
	NCCL_AVG,
	NCCL_CUSTOM,
};

struct nccl_call_event {
	struct scope_header header; /* ktime_ns: at entry */
	__u64 duration_ns;
	__u64 bytes;
	__u64 handle;	    /* the process's handle of the communicator */
	__u64 communicator; /* hash of the unique id, or of the parent and the split: the same for all ranks */
	__u64 sequence;
	__u64 late_ns;
	__u64 stream;
	__s32 rank;
	__s32 nranks;
	__s32 root;
	__s32 peer;
	__s32 result;
	enum nccl_dtype dtype;
	enum nccl_op op;
	__u16 function_id; /* number of the function */
	__u8 nested;
	__u8 in_group;
	__u8 has_bytes;
	__u8 has_dtype;
	__u8 has_op;
	__u8 has_root;
	__u8 has_peer;
	__u8 has_handle;
	__u8 has_communicator;
	__u8 has_rank;
	__u8 has_sequence;
	__u8 has_late;
	__u8 has_stream;
	__u8 returned; /* 0: the thread ended during the call */
	__u8 pad[4];
};

struct nccl_call_summary_key {
	struct scope_process process;
	__u64 communicator;
	__s32 rank;
	__u16 function_id;
	__u8 has_communicator;
	__u8 has_rank;
};

struct nccl_call_summary_value {
	__u64 count;
	__u64 errors;
	__u64 bytes;
	__u64 late_ns;
	__u64 total_ns;
	struct scope_histogram latency;
};

/* A wait for a CUDA stream, or for all, with calls of NCCL. */
struct nccl_wait_event {
	struct scope_header header; /* ktime_ns: at entry */
	__u64 duration_ns;
	__u64 stream;
	__u64 calls;
	__u64 bytes;
	__s32 result;
	__u8 has_stream; /* 0: it was for all streams */
	__u8 pad[3];
};

#endif
