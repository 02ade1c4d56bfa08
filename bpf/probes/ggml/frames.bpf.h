/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Data about the attached functions, and about a thread's open calls. */
#ifndef SCOPE_GGML_FRAMES_BPF_H
#define SCOPE_GGML_FRAMES_BPF_H

struct ggml_place {
	enum ggml_function function;
	__s32 destination; /* number of the argument with the result's tensor; below 0: none */
};

SCOPE_PLACES(struct ggml_place);

#define GGML_DEPTH 8

/*
 * The begin of struct ggml_tensor in ggml.h, since December 2023, when `n_dims` was removed. User space checks in the
 * code of each ggml that `ne`, `op` and the name are here (probes/ggml/tensors.py).
 */
struct ggml_tensor {
	__u32 type;
	__u32 backend; /* until December 2024, unused */
	__u64 buffer;
	__s64 ne[4];
	__u64 nb[4];
	__u32 op;
	__u8 parameters[172];	/* and sources, data and others */
	char names[GGML_NAMES]; /* `name` begins at the first byte or, until December 2024, at the ninth */
};

SCOPE_SHARED(struct, ggml_tensor);

struct ggml_frame {
	struct scope_call call;
	struct where_mark begun;
	__u64 bytes;   /* of an allocation */
	__u64 real_at; /* where a pool returns the real size */
	__u64 stack;   /* number of an allocation's call stack */
	__u64 tensor;  /* address of an operation's result */
	__u32 nodes;
	__u32 leafs;
	__s32 device;
	__u8 has_shape;
	__u8 nested;
	__u8 covers; /* operations inside this call are nested */
	__u8 pad;
};

struct ggml_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	struct ggml_frame frames[GGML_DEPTH];
	struct where_mark ended;
	__u64 args[CALL_ARGUMENTS];
	struct ggml_tensor tensor; /* a copy */
	struct stack_memory stacks;
};

SCOPE_THREADS(struct ggml_thread);
SCOPE_CALLS(struct ggml_thread, struct ggml_frame);

static __always_inline bool computes(enum ggml_function function)
{
	return function < GGML_ALIGNED_MALLOC;
}

static __always_inline bool operates(enum ggml_function function)
{
	return function > GGML_CUDA_POOL_FREE;
}

static __always_inline __u16 stream_of(enum ggml_function function)
{
	if (operates(function))
		return stream_ggml_operation;
	return computes(function) ? stream_ggml_graph : stream_ggml_allocation;
}

#endif
