/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One pair of programs for all functions. A table describes each function's arguments; the cookie is its number. */
#include "scope.bpf.h"

#include "calls.bpf.h"

#include "nccl.h"

SCOPE_STREAM(nccl_call);
SCOPE_STREAM(nccl_wait);
SCOPE_SUMMARY(nccl_call_summary);

#include "frames.bpf.h"

#include "communicators.bpf.h"
#include "totals.bpf.h"
#include "waits.bpf.h"

/* Bytes of an element; 0: the type is unknown. */
static __always_inline __u64 size_of(__u32 dtype)
{
	switch (dtype) {
	case NCCL_INT8:
	case NCCL_UINT8:
	case NCCL_FLOAT8E4M3:
	case NCCL_FLOAT8E5M2:
		return 1;
	case NCCL_FLOAT16:
	case NCCL_BFLOAT16:
		return 2;
	case NCCL_INT32:
	case NCCL_UINT32:
	case NCCL_FLOAT32:
		return 4;
	case NCCL_INT64:
	case NCCL_UINT64:
	case NCCL_FLOAT64:
		return 8;
	}
	return 0;
}

static __always_inline __u64 bytes_of(const struct nccl_frame *frame, const struct nccl_place *place)
{
	return argument(frame, place->count) * size_of(argument(frame, place->dtype));
}

/* The stream that counts a call. */
static __always_inline __u16 stream_of(enum nccl_kind kind)
{
	if (!makes_rows(kind))
		return SCOPE_NO_STREAM;
	if (scope_summarize)
		return stream_nccl_call_summary;
	return waits(kind) ? stream_nccl_wait : stream_nccl_call;
}

static __always_inline bool makes_communicators(enum nccl_kind kind)
{
	return kind >= NCCL_INIT_RANK && kind <= NCCL_INIT_OTHER;
}

static __always_inline void emit_call(struct task_struct *task, struct nccl_frame *frame,
				      const struct nccl_place *place, __u64 comm, __u64 duration_ns, __s32 result,
				      bool returned)
{
	__u32 dtype = argument(frame, place->dtype), op = argument(frame, place->op);
	struct nccl_call_event *event;

	if (scope_summarize) {
		if (returned)
			summarize(frame, bytes_of(frame, place), duration_ns, result);
		return;
	}
	event = scope_reserve(task, stream_nccl_call, frame->call.entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->bytes = bytes_of(frame, place);
	event->handle = comm;
	event->communicator = frame->communicator;
	event->sequence = frame->sequence;
	event->late_ns = frame->late_ns;
	event->stream = argument(frame, place->stream);
	event->rank = frame->rank;
	event->nranks = frame->nranks;
	event->root = argument(frame, place->root);
	event->peer = argument(frame, place->peer);
	event->result = result;
	event->dtype = dtype;
	event->op = op < NCCL_CUSTOM ? op : NCCL_CUSTOM;
	event->function_id = frame->call.place;
	event->nested = frame->nested;
	event->in_group = frame->in_group;
	event->has_bytes = place->count >= 0 && size_of(dtype);
	event->has_dtype = place->dtype >= 0;
	event->has_op = place->op >= 0;
	event->has_root = place->root >= 0;
	event->has_peer = place->peer >= 0;
	event->has_handle = comm != 0;
	event->has_communicator = frame->has_communicator;
	event->has_rank = frame->has_rank;
	event->has_sequence = frame->has_sequence;
	event->has_late = frame->has_late;
	event->has_stream = place->stream >= 0;
	event->returned = returned;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_nccl_call, sizeof(*event));
}

/* Attached at the first instruction of each function, or after its endbr64. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(nccl_enter, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct nccl_place *place = place_numbered(number);
	struct nccl_frame *outer, *frame;
	struct nccl_thread *thread;
	struct user_frame entry;
	__u16 stream;

	if (!place)
		return 0;
	stream = stream_of(place->kind);
	thread = calling_thread(task, number, stream);
	frame = thread ? enter_call(ctx, thread, number, stream) : NULL;
	if (!frame)
		return 0;
	read_entry(ctx, &entry, frame->args, place->arguments);
	outer = outer_call(thread);
	frame->nested = outer && outer->covers;
	frame->covers = frame->nested || makes_rows(place->kind);
	frame->in_group = thread->groups > (place->kind == NCCL_GROUP_END);
	frame->has_communicator = 0;
	frame->has_rank = 0;
	frame->has_sequence = 0;
	frame->has_late = 0;
	frame->communicator = 0;
	frame->sequence = 0;
	frame->late_ns = 0;
	frame->calls = 0;
	frame->bytes = 0;
	if (place->kind == NCCL_WAIT && !frame->nested)
		take_pending(task, frame);
	else if (place->kind == NCCL_WAIT_ALL && !frame->nested)
		take_all_pending(task, frame);
	if (place->kind == NCCL_INIT_RANK || place->kind == NCCL_INIT_SCALABLE)
		read_init(ctx, thread, frame, place->kind);
	else if (place->kind == NCCL_INIT_ALL)
		thread->made = 0;
	else if (place->kind == NCCL_SPLIT)
		note_split(task, frame);
	frame->call.entered_ns = bpf_ktime_get_boot_ns();
	if (!makes_communicators(place->kind) && place->comm >= 0)
		recall(task, frame, place->kind, argument(frame, place->comm));
	if (place->kind == NCCL_END) /* before another thread may make a communicator at the same address */
		forget(task, frame->args[0]);
	return 0;
}

SEC("uretprobe")
int SCOPE_UNPREEMPTED(nccl_return, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct nccl_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct nccl_place *place = place_numbered(number);
	__s32 result = PT_REGS_RC(ctx);
	struct nccl_frame *frame;
	__u64 duration_ns, comm;

	if (!thread || !place)
		return 0;
	frame = leave_call(ctx, thread, number);
	if (!frame)
		return 0;
	duration_ns = bpf_ktime_get_boot_ns() - frame->call.entered_ns;
	if (place->kind == NCCL_GROUP_START && !result)
		thread->groups++;
	else if (place->kind == NCCL_GROUP_END && thread->groups)
		thread->groups--;
	else if (place->kind == NCCL_GET_ID)
		thread->made = result ? 0 : read_id(thread, frame->args[0]);
	if (waits(place->kind))
		emit_wait(task, frame, place->kind == NCCL_WAIT, duration_ns, result);
	if (waits(place->kind) || !makes_rows(place->kind))
		return 0;
	if ((place->kind == NCCL_COLLECTIVE || place->kind == NCCL_POINT) && !frame->nested && !result)
		add_pending(task, argument(frame, place->stream), bytes_of(frame, place));
	comm = makes_communicators(place->kind) ? learn_made(task, thread, frame, place, result)
						: argument(frame, place->comm);
	emit_call(task, frame, place, comm, duration_ns, result, true);
	return 0;
}

static __always_inline void abandon(struct task_struct *task, struct nccl_thread *thread, struct nccl_frame *frame)
{
	const struct nccl_place *place = place_numbered(frame->call.place);

	if (place && !waits(place->kind) && makes_rows(place->kind))
		emit_call(task, frame, place, makes_communicators(place->kind) ? 0 : argument(frame, place->comm),
			  bpf_ktime_get_boot_ns() - frame->call.entered_ns, 0, false);
}

/* For instance, a rank is killed while it waits for the others. */
SCOPE_ABANDON(nccl_abandon, struct nccl_thread, struct nccl_frame, abandon)

SEC("tp_btf/sched_process_exec")
int BPF_PROG(nccl_replace, struct task_struct *task)
{
	struct nccl_thread *thread = leave_calls_at_exec(task);

	if (thread)
		thread->groups = 0;
	return 0;
}
