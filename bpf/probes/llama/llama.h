/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_LLAMA_H
#define SCOPE_LLAMA_H

/* What a function does, and so which of its arguments are read. */
enum llama_function {
	LLAMA_DECODE,	     /* (context, llama_batch on the stack) */
	LLAMA_ENCODE,	     /* the same */
	LLAMA_PROCESS,	     /* (context, kind, llama_batch_ext *): seen in the LLAMA_UBATCH calls inside */
	LLAMA_UBATCH,	     /* (llama_context *this, const llama_ubatch *) */
	LLAMA_CLEAR,	     /* (llama_batch_ext *): also of llama_batch_ext_free */
	LLAMA_MAKE,	     /* returns a llama_batch_ext * */
	LLAMA_ADD,	     /* (llama_batch_ext *, sequence): the next token */
	LLAMA_WANT,	     /* (llama_batch_ext *, index, whether its output is wanted) */
	LLAMA_SYNCHRONIZE,   /* (context) */
	LLAMA_GET_LOGITS,    /* (context): of the batch's last output */
	LLAMA_GET_LOGITS_OF, /* (context, index in the batch) */
	LLAMA_GET_TOKEN_OF,  /* (context, index in the batch); returns -1 if the token is not sampled yet */
	LLAMA_SHIFT,	     /* (memory, sequence, from, to, delta): positions change */
	LLAMA_NEW,	     /* returns a context */
	LLAMA_FREE,	     /* (context) */
	LLAMA_GPU_WAIT,	     /* waits until a GPU is done */
	LLAMA_EMBEDDINGS,    /* (context): also an output */
	LLAMA_RESET,	     /* (memory): of the context that the thread has used last */
};

/* What a thread is in when it is sampled, by the kind of the function. */
enum llama_operator {
	LLAMA_MATMUL,
	LLAMA_ATTENTION,
	LLAMA_BARRIER,
	LLAMA_ELEMENTWISE,
	LLAMA_COPY,
	LLAMA_KERNEL,
	LLAMA_OTHER,
	LLAMA_SAMPLED, /* how many there are */
};

/* The time on a CPU, shared out by samples: one member per enum llama_operator, in its order, and the rest. */
struct llama_operators {
	__u64 matmul_ns;
	__u64 attention_ns;
	__u64 barrier_ns;
	__u64 elementwise_ns;
	__u64 copy_ns;
	__u64 kernel_ns;
	__u64 other_ns;
	__u64 unsampled_ns; /* of calls without a sample */
};

/* A time by where it went; its parts, of which the last ones make up on_cpu_ns, add up to it. */
struct llama_spent {
	__u64 gpu_wait_ns;
	struct scope_where where; /* without gpu_wait_ns */
	struct llama_operators operators;
};

/* A time outside of calls, as the thread spent it that made the calls before and after; the parts add up to it. */
struct llama_outside {
	__u64 outside_on_cpu_ns;
	__u64 outside_run_queue_ns;
	__u64 outside_blocked_ns;
	__u64 outside_stopped_ns;
	__u64 outside_unknown_ns; /* also if two threads made these calls */
};

/* A call that computes a batch. */
struct llama_decode_event {
	struct scope_header header; /* ktime_ns: at entry */
	__u64 duration_ns;
	__u64 context;
	struct scope_where where;
	__u32 tokens;
	__u32 outputs;
	__s32 result;
	enum llama_function function;
	__u8 has_result;
	__u8 has_tokens;
	__u8 has_outputs;
	__u8 pad[5];
};

/* A token that was generated. */
struct llama_token_event {
	struct scope_header header; /* ktime_ns: when the program got it, or that from which it samples it */
	__u64 duration_ns;	    /* since the token before, or the begin of the request */
	__u64 context;
	__u64 request;
	__u64 decode_ns; /* in calls that compute batches of the context */
	__u64 wait_ns;	 /* in calls that wait for the results */
	__u64 outside_ns;
	__u64 others_run_queue_ns; /* of other threads, summed up */
	struct llama_spent spent;  /* of decode_ns and wait_ns together */
	struct llama_outside outside;
	__s32 sequence;
	__u32 number; /* in its request, from 0 */
	__u32 batch_tokens;
	__u32 others_prompt_tokens;
	__u8 draft;	  /* see struct llama_context_state */
	__u8 has_parts;	  /* calls of the context have not overlapped */
	__u8 has_outside; /* nor have their beginnings */
	__u8 has_others;  /* this kernel counts how long threads wait */
	__u8 pad[4];
};

/* How a request ended. */
enum llama_ended {
	LLAMA_ENDED_REPLACED, /* another request of the sequence began */
	LLAMA_ENDED_IDLE,     /* nothing has happened for LLAMA_IDLE_NS */
	LLAMA_ENDED_FREED,    /* the context was freed */
	LLAMA_ENDED_EXITED,   /* the process ended */
	LLAMA_ENDED_NOT,      /* it goes on */
};

struct llama_request_event {
	struct scope_header header; /* ktime_ns: when its first batch was given */
	__u64 duration_ns;
	__u64 context;
	__u64 request;
	__u64 ttft_ns;
	__u64 generation_ns; /* from the first token to the last */
	__s32 sequence;
	__u32 prompt_tokens;
	__u32 cached_tokens;
	__u32 generated_tokens;
	__u32 drafted_tokens;
	__u32 decodes;
	enum llama_ended ended;
	__u8 draft;
	__u8 has_begin; /* else it began before the trace */
	__u8 has_first; /* has a first token after its begin */
	__u8 has_tokens;
	__u8 has_cached;
	__u8 pad[7];
};

#endif
