/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that begin: batches, parts of them, and waits. What they are given is read now. */
#ifndef SCOPE_LLAMA_BEGUN_BPF_H
#define SCOPE_LLAMA_BEGUN_BPF_H

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
	struct batch_walk walk = {.now_ns = frame->begun.where.at_ns, .by_order = true};
	struct llama_context_state *context;

	key_of(&walk.of, task, frame->context);
	context = find_context(&walk.of);
	if (!context) {
		frame->has_outputs = false;
		scope_count_loss(stream_llama_request, SCOPE_LOST_MAP_FULL);
		return;
	}
	context->decodes++;
	context->last_output = -1;
	context->unknown_outputs = 0;
	context->prompt_tokens = 0;
	if (function == LLAMA_PROCESS) {
		frame->filled = take_wanted_outputs(task, &walk.of, PT_REGS_PARM3(ctx));
		frame->has_tokens = true;
		return;
	}
	read_batch(ctx, thread, frame, &walk);
}

/* A call of a context computes or waits from now on: its requests are not idle. */
static __always_inline void open_context(struct task_struct *task, const struct llama_frame *frame, bool computes)
{
	struct llama_context_state *context;
	struct llama_contexts_key of;

	key_of(&of, task, frame->context);
	context = computes ? make_context(&of) : find_context(&of);
	if (!context)
		return;
	context->open = 1;
	if (!frame->inside)
		return_to_context(context, task, &frame->begun.where);
}

static __always_inline void mark(const struct llama_thread *thread, struct llama_mark *mark)
{
	where_mark(&mark->where);
	__builtin_memcpy(mark->samples, thread->samples, sizeof(mark->samples));
}

/*
 * Is the innermost call inside another one of the same context? Before 2025, llama_get_logits_ith() calls
 * llama_synchronize().
 */
static __always_inline bool is_inside(struct llama_thread *thread, __u64 context)
{
	for (__u32 i = 0; i < LLAMA_DEPTH; i++)
		if (i + 1 < thread->calls.depth && thread->frames[i].context == context)
			return true;
	return false;
}

static __always_inline int begin(struct pt_regs *ctx, struct task_struct *task, struct llama_thread *thread,
				 __u32 number, enum llama_function function)
{
	struct llama_frame *frame = enter_call(ctx, thread, number, stream_of(function));

	if (!frame)
		return 0;
	frame->context = PT_REGS_PARM1(ctx);
	frame->inside = is_inside(thread, frame->context);
	frame->index = function == LLAMA_GET_LOGITS ? -1 : (__s32)PT_REGS_PARM2(ctx);
	frame->tokens = 0;
	frame->outputs = 0;
	frame->filled = false;
	frame->has_tokens = false;
	frame->has_outputs = true;
	__builtin_memset(&frame->gpu_waits, 0, sizeof(frame->gpu_waits));
	mark(thread, &frame->begun);
	open_context(task, frame, computes(function));
	if (computes(function)) {
		begin_batch(ctx, task, thread, frame, function);
		frame->others_waited_ns = others_waited(task);
		mark(thread, &frame->begun);
		open_context(task, frame, true);
	}
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

#endif
