/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inference with llama.cpp: batches, the tokens that were sampled from them, and requests. The functions are those of
 * its C interface, which every program uses that is built on it. The cookie is the function's number.
 */
#include "scope.bpf.h"

#include "calls.bpf.h"
#include "delay.bpf.h"
#include "where.bpf.h"

#include "llama.h"

SCOPE_STREAM(llama_decode);
SCOPE_STREAM(llama_token);
SCOPE_STREAM(llama_request);

#include "operators.bpf.h"

#include "spent.bpf.h"

#include "outside.bpf.h"

#include "requests.bpf.h"

#include "batches.bpf.h"
#include "tokens.bpf.h"

struct llama_place {
	enum llama_function function;
};

SCOPE_PLACES(struct llama_place);

#define LLAMA_DEPTH 8

struct llama_frame {
	struct scope_call call;
	struct llama_mark begun;
	struct llama_taken gpu_waits; /* inside the call */
	__u64 others_waited_ns;	      /* until the call began */
	__u64 context;
	__s32 index; /* of the wanted output */
	__u32 tokens;
	__u32 outputs;
	bool filled;	  /* the wanted outputs are known */
	bool has_tokens;  /* their number is known */
	bool has_outputs; /* likewise */
	bool inside;	  /* another call of the same context */
};

struct llama_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	struct llama_frame frames[LLAMA_DEPTH];
	__u32 samples[LLAMA_SAMPLED]; /* while calls were open, by enum llama_operator */
	__u32 pad;
	__u64 computed; /* the context that computed last */
	struct llama_mark ended;
	struct llama_taken taken;
	struct llama_spent spent;
	union { /* what is read of the program */
		struct llama_batch batch;
		struct llama_ubatch part;
	};
};

SCOPE_THREADS(struct llama_thread);
SCOPE_CALLS(struct llama_thread, struct llama_frame);

static __always_inline bool computes(enum llama_function function)
{
	return function <= LLAMA_PROCESS;
}

static __always_inline __u16 stream_of(enum llama_function function)
{
	if (computes(function))
		return stream_llama_decode;
	return function == LLAMA_GET_LOGITS || function == LLAMA_GET_LOGITS_OF || function == LLAMA_GET_TOKEN_OF
		       ? stream_llama_token
		       : SCOPE_NO_STREAM;
}

static __always_inline void key_of(struct llama_contexts_key *key, struct task_struct *task, __u64 context)
{
	key->start_ns = task_start_ns(task);
	key->context = context;
	key->pid = task->tgid;
	key->pad = 0;
}

#include "begun.bpf.h"

static __always_inline int free_context(struct task_struct *task, __u64 context)
{
	struct ending ending = {
		.start_ns = task_start_ns(task), .context = context, .pid = task->tgid, .ended = LLAMA_ENDED_FREED};

	return end_requests(&ending);
}

static __always_inline int note_read(struct task_struct *task, __u64 address)
{
	struct llama_context_state *context;
	struct llama_contexts_key of;

	key_of(&of, task, address);
	context = find_context(&of);
	if (context)
		context->read = 1;
	return 0;
}

static __always_inline int reset(struct task_struct *task, __u64 address)
{
	struct llama_contexts_key of;

	key_of(&of, task, address);
	return clear_context(&of);
}

SEC("uprobe")
int SCOPE_UNPREEMPTED(llama_enter, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct llama_place *place = place_numbered(number);
	enum llama_function function;
	struct llama_thread *thread;

	if (!place)
		return 0;
	function = place->function;
	thread = calling_thread(task, number, stream_of(function));
	if (!thread)
		return 0;
	if (function == LLAMA_UBATCH)
		return begin_part(ctx, task, thread);
	if (function == LLAMA_CLEAR)
		return clear_batch(task, PT_REGS_PARM1(ctx));
	if (function == LLAMA_ADD)
		return add_to_batch(task, PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx));
	if (function == LLAMA_WANT)
		return want_output(task, PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx));
	if (function == LLAMA_FREE) /* as free(), it takes NULL */
		return PT_REGS_PARM1(ctx) ? free_context(task, PT_REGS_PARM1(ctx)) : 0;
	if (function == LLAMA_GPU_WAIT)
		return begin_gpu_wait(ctx, thread, number);
	if (function == LLAMA_EMBEDDINGS)
		return note_read(task, PT_REGS_PARM1(ctx));
	if (function == LLAMA_RESET)
		return reset(task, thread->computed);
	if (function == LLAMA_SHIFT)
		return keep_shift(task, PT_REGS_PARM2(ctx), PT_REGS_PARM5(ctx));
	return begin(ctx, task, thread, number, function);
}

static __always_inline void emit_batch(struct task_struct *task, const struct llama_frame *frame,
				       enum llama_function function, const struct llama_taken *taken, bool has_result,
				       __s32 result)
{
	struct llama_decode_event *event =
		scope_reserve(task, stream_llama_decode, frame->call.entered_ns, sizeof(*event));

	if (!event)
		return;
	event->duration_ns = taken->ns;
	event->context = frame->context;
	event->where = taken->where;
	event->tokens = frame->tokens;
	event->outputs = frame->outputs;
	event->result = result;
	event->function = function;
	event->has_result = has_result;
	event->has_tokens = frame->has_tokens;
	event->has_outputs = frame->has_tokens && frame->has_outputs;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	if (taken->where.unknown_ns)
		scope_count_incomplete(stream_llama_decode);
	scope_submit(event, stream_llama_decode, sizeof(*event));
}

/* A call that ended was part of the call around it, which waits for a GPU while this one does. */
static __always_inline void add_to_outer(struct llama_thread *thread, const struct llama_taken *gpu_waits)
{
	struct llama_frame *outer =
		frame_numbered(thread->frames, sizeof(*outer), LLAMA_DEPTH, thread->calls.depth - 1);

	if (outer)
		add_taken(&outer->gpu_waits, gpu_waits);
}

/* A call of a context ended, which is in no other call of it. */
static __always_inline int end_of_context(struct task_struct *task, struct llama_thread *thread,
					  struct llama_frame *frame, enum llama_function function, __s64 result)
{
	struct llama_context_state *context;
	struct llama_contexts_key of;
	bool failed;
	__u64 waited_ns;

	key_of(&of, task, frame->context);
	context = find_context(&of);
	if (!context)
		return 0;
	context->open = 0;
	leave_context(context, task, &thread->ended.where);
	failed = computes(function) && (__s32)result;
	if (failed)
		take_batch_back(&of, context);
	spent_in(&thread->spent, &thread->taken, &frame->gpu_waits);
	add_call(context, thread->taken.ns, failed ? 0 : frame->tokens, !computes(function), &thread->spent);
	if (computes(function)) {
		thread->computed = frame->context;
		waited_ns = others_waited(task) - frame->others_waited_ns;
		if ((__s64)waited_ns > 0) /* a thread that ends now may be missing */
			context->sums.others_run_queue_ns += waited_ns;
	} else if (function != LLAMA_SYNCHRONIZE &&
		   (function == LLAMA_GET_TOKEN_OF ? (__s32)result != -1 : result != 0)) {
		take_output(task, &of, context, frame->index, thread->ended.where.at_ns);
	}
	return 0;
}

SEC("uretprobe")
int SCOPE_UNPREEMPTED(llama_return, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct llama_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct llama_place *place = place_numbered(number);
	struct llama_context_state *context;
	struct llama_contexts_key of;
	enum llama_function function;
	struct llama_frame *frame;

	if (!thread || !place)
		return 0;
	function = place->function;
	mark(thread, &thread->ended);
	frame = leave_call(ctx, thread, number);
	if (!frame)
		return 0;
	if (function == LLAMA_NEW) {
		key_of(&of, task, PT_REGS_RC(ctx));
		context = of.context ? make_context(&of) : NULL;
		if (context)
			context->from_begin = 1;
		return 0;
	}
	if (function == LLAMA_MAKE)
		return clear_batch(task, PT_REGS_RC(ctx));
	taken_between(&thread->taken, &frame->begun, &thread->ended);
	if (function == LLAMA_GPU_WAIT) {
		add_to_outer(thread, &thread->taken);
		return 0;
	}
	if (computes(function)) {
		emit_batch(task, frame, function, &thread->taken, true, PT_REGS_RC(ctx));
		forget_shifts(task);
	}
	if (frame->inside) {
		add_to_outer(thread, &frame->gpu_waits);
		return 0;
	}
	return end_of_context(task, thread, frame, function, PT_REGS_RC(ctx));
}

static long abandon(__u32 index, void *unused)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct llama_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct llama_frame *frame = thread ? end_call(thread) : NULL;
	const struct llama_place *place = frame ? place_numbered(frame->call.place) : NULL;
	struct llama_context_state *context;
	struct llama_contexts_key of;

	if (!frame)
		return 1;
	if (!place || place->function == LLAMA_GPU_WAIT)
		return 0;
	key_of(&of, task, frame->context);
	context = find_context(&of);
	if (context)
		context->open = 0;
	if (!computes(place->function))
		return 0;
	if (context)
		take_batch_back(&of, context);
	mark(thread, &thread->ended);
	taken_between(&thread->taken, &frame->begun, &thread->ended);
	emit_batch(task, frame, place->function, &thread->taken, false, 0);
	return 0;
}

/* A thread ends during a call, or a process ends: so do its requests. */
SEC("tp_btf/sched_process_exit")
int llama_exit(unsigned long long *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct llama_thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	struct ending ending = {.ended = LLAMA_ENDED_EXITED};

	if (thread && thread->calls.depth)
		bpf_loop(LLAMA_DEPTH, abandon, NULL, 0);
	keep_waited(task);
	if (!is_last_thread(ctx, task))
		return 0;
	ending.start_ns = task_start_ns(task);
	ending.pid = task->tgid;
	return end_requests(&ending);
}

/* An exec frees all contexts. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(llama_exec, struct task_struct *task)
{
	leave_calls_at_exec(task);
	return free_context(task, 0);
}

/* A thread is sampled at regular times. */
SEC("perf_event")
int llama_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct llama_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	enum llama_operator kind;

	if (!thread || !thread->calls.depth)
		return 0;
	kind = kind_of(task, PT_REGS_IP(&ctx->regs));
	if (kind < LLAMA_SAMPLED)
		thread->samples[kind]++;
	return 0;
}
