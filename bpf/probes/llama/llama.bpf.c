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
	__u8 pad;
};

struct llama_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	struct llama_frame frames[LLAMA_DEPTH];
	__u32 samples[LLAMA_SAMPLED]; /* while calls were open, by enum llama_operator */
	__u32 pad;
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

/* What a batch, or a part of it, has. */
static __always_inline void add_read(struct llama_frame *frame, const struct batch_walk *walk)
{
	frame->tokens += walk->tokens;
	frame->outputs += walk->outputs;
	frame->has_tokens = true;
	if (walk->unread) {
		frame->has_outputs = false;
		scope_count_incomplete(stream_llama_decode);
	}
}

/* The batch of llama_decode() and llama_encode(), which lies above the return address. */
static __always_inline void read_batch(struct pt_regs *ctx, struct llama_thread *thread, struct llama_frame *frame,
				       struct batch_walk *walk)
{
	struct llama_batch *batch = &thread->batch;
#if defined(__TARGET_ARCH_x86)
	__u64 at = ctx->sp + 8;
#else
	__u64 at = PT_REGS_PARM2(ctx); /* AAPCS64 6.8.2: a large struct is passed by address */
#endif

	if (bpf_probe_read_user(batch, sizeof(*batch), (void *)at)) {
		frame->has_outputs = false;
		scope_count_incomplete(stream_llama_decode);
		return;
	}
	walk->tokens = batch->tokens;
	walk->positions = batch->pos;
	walk->sequences = batch->seq_id;
	walk->wanted = batch->logits;
	walk->embeddings = batch->embd != 0;
	read_tokens(walk);
	add_read(frame, walk);
}

/* Begins a batch. Its tokens are read now, or at the LLAMA_UBATCH calls inside. */
static __always_inline void begin_batch(struct pt_regs *ctx, struct task_struct *task, struct llama_thread *thread,
					struct llama_frame *frame, enum llama_function function)
{
	struct batch_walk walk = {.now_ns = bpf_ktime_get_boot_ns(), .by_order = true};
	struct llama_context_state *context;

	key_of(&walk.of, task, frame->context);
	context = make_context(&walk.of);
	if (!context) {
		frame->has_outputs = false;
		scope_count_loss(stream_llama_request, SCOPE_LOST_MAP_FULL);
		return;
	}
	context->decodes++;
	context->last_output = -1;
	context->unknown_outputs = 0;
	if (function == LLAMA_PROCESS) {
		frame->filled = take_wanted_outputs(task, &walk.of, PT_REGS_PARM3(ctx));
		frame->has_tokens = true;
		return;
	}
	read_batch(ctx, thread, frame, &walk);
}

/* Notes whether a call of a context computes or waits: then its requests are not idle. */
static __always_inline void set_open(struct task_struct *task, __u64 address, __u32 open)
{
	struct llama_context_state *context;
	struct llama_contexts_key of;

	key_of(&of, task, address);
	context = find_context(&of);
	if (context)
		context->open = open;
}

static __always_inline void mark(const struct llama_thread *thread, struct llama_mark *mark)
{
	where_mark(&mark->where);
	__builtin_memcpy(mark->samples, thread->samples, sizeof(mark->samples));
}

static __always_inline int begin(struct pt_regs *ctx, struct task_struct *task, struct llama_thread *thread,
				 __u32 number, enum llama_function function)
{
	struct llama_frame *frame = enter_call(ctx, thread, number, stream_of(function));

	if (!frame)
		return 0;
	frame->context = PT_REGS_PARM1(ctx);
	frame->index = function == LLAMA_GET_LOGITS ? -1 : (__s32)PT_REGS_PARM2(ctx);
	frame->tokens = 0;
	frame->outputs = 0;
	frame->filled = false;
	frame->has_tokens = false;
	frame->has_outputs = true;
	__builtin_memset(&frame->gpu_waits, 0, sizeof(frame->gpu_waits));
	if (computes(function)) {
		begin_batch(ctx, task, thread, frame, function);
		frame->others_waited_ns = others_waited(task);
	}
	set_open(task, frame->context, 1);
	mark(thread, &frame->begun);
	frame->call.entered_ns = frame->begun.where.at_ns;
	return 0;
}

/* Begins a wait for a GPU, if it is in a call of llama.cpp. */
static __always_inline int begin_gpu_wait(struct pt_regs *ctx, struct llama_thread *thread, __u32 number)
{
	struct llama_frame *frame = thread->calls.depth ? enter_call(ctx, thread, number, SCOPE_NO_STREAM) : NULL;

	if (!frame)
		return 0;
	frame->context = 0;
	__builtin_memset(&frame->gpu_waits, 0, sizeof(frame->gpu_waits));
	mark(thread, &frame->begun);
	frame->call.entered_ns = frame->begun.where.at_ns;
	return 0;
}

/* A part of a batch is computed, within a call of the same thread that computes the batch. */
static __always_inline int begin_part(struct pt_regs *ctx, struct task_struct *task, struct llama_thread *thread)
{
	struct batch_walk walk = {};
	struct llama_frame *frame =
		frame_numbered(thread->frames, sizeof(*frame), LLAMA_DEPTH, thread->calls.depth - 1);
	const struct llama_place *place = frame ? place_numbered(frame->call.place) : NULL;
	const struct llama_ubatch_arrays *arrays;
	struct llama_ubatch *part = &thread->part;

	if (!place || place->function != LLAMA_PROCESS)
		return 0;
	if (bpf_probe_read_user(part, sizeof(*part), (void *)PT_REGS_PARM2(ctx))) {
		frame->has_tokens = false;
		frame->has_outputs = false;
		scope_count_incomplete(stream_llama_decode);
		return 0;
	}
	walk.tokens = part->tokens;
	walk.before = frame->tokens;
	arrays = arrays_of(part);
	if (arrays) {
		key_of(&walk.of, task, frame->context);
		walk.now_ns = frame->call.entered_ns; /* a request begins with the batch */
		walk.positions = arrays->pos;
		walk.sequences = arrays->seq_id;
		walk.wanted = arrays->output;
		walk.embeddings = part->embd != 0;
		walk.by_order = !frame->filled;
		read_tokens(&walk);
	} else {
		walk.unread = true;
	}
	add_read(frame, &walk);
	return 0;
}

static __always_inline int free_context(struct task_struct *task, __u64 context)
{
	struct ending ending = {
		.start_ns = task_start_ns(task), .context = context, .pid = task->tgid, .ended = LLAMA_ENDED_FREED};

	return end_requests(&ending);
}

SEC("uprobe")
int llama_enter(struct pt_regs *ctx)
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
	event->has_where = !taken->unknown;
	event->has_result = has_result;
	event->has_tokens = frame->has_tokens;
	event->has_outputs = frame->has_tokens && frame->has_outputs;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_llama_decode, sizeof(*event));
}

/* Is the thread inside another call of the same context? Before 2025, llama_get_logits_ith() calls llama_synchronize().
 */
static __always_inline bool is_inside(struct llama_thread *thread, __u64 context)
{
	for (__u32 i = 0; i < LLAMA_DEPTH; i++)
		if (i < thread->calls.depth && thread->frames[i].context == context)
			return true;
	return false;
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
	bool has_spent, failed;
	__u64 waited_ns;

	key_of(&of, task, frame->context);
	context = find_context(&of);
	if (!context)
		return 0;
	context->open = 0;
	context->ended_ns = thread->ended.where.at_ns;
	failed = computes(function) && (__s32)result;
	if (failed)
		take_batch_back(&of, context);
	has_spent = spent_in(&thread->spent, &thread->taken, &frame->gpu_waits);
	add_call(context, thread->taken.ns, failed ? 0 : frame->tokens, !computes(function),
		 has_spent ? &thread->spent : NULL);
	if (computes(function)) {
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
int llama_return(struct pt_regs *ctx)
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
	if (is_inside(thread, frame->context)) {
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
	struct llama_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread)
		leave_all_calls(thread);
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
