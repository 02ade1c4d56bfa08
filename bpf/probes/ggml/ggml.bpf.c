/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Computations of graphs, and memory. The cookie is the function's number. */
#include "scope.bpf.h"

#include "calls.bpf.h"
#include "where.bpf.h"

#include "ggml.h"

SCOPE_STREAM(ggml_graph);
SCOPE_STREAM(ggml_allocation);

#include "memory.bpf.h"

struct ggml_place {
	enum ggml_function function;
};

SCOPE_PLACES(struct ggml_place);

#define GGML_DEPTH 8

struct ggml_frame {
	struct scope_call call;
	struct where_mark begun;
	__u64 bytes;   /* of an allocation */
	__u64 real_at; /* where a pool returns the real size */
	__u32 nodes;
	__u32 leafs;
	__u8 has_shape;
	__u8 nested;
	__u8 pad[6];
};

struct ggml_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	struct ggml_frame frames[GGML_DEPTH];
	struct where_mark ended;
};

SCOPE_THREADS(struct ggml_thread);
SCOPE_CALLS(struct ggml_thread, struct ggml_frame);

static __always_inline bool computes(enum ggml_function function)
{
	return function < GGML_ALIGNED_MALLOC;
}

static __always_inline __u16 stream_of(enum ggml_function function)
{
	return computes(function) ? stream_ggml_graph : stream_ggml_allocation;
}

/* The begin of struct ggml_cgraph in ggml-impl.h, since November 2023. */
struct ggml_cgraph {
	__s32 size; /* room for nodes and leafs */
	__s32 nodes;
	__s32 leafs;
};

static __always_inline void read_graph(struct ggml_frame *frame, __u64 at)
{
	struct ggml_cgraph graph = {};

	frame->has_shape = !bpf_probe_read_user(&graph, sizeof(graph), (void *)at) && graph.nodes >= 0 &&
			   graph.leafs >= 0 && graph.size >= graph.nodes && graph.size >= graph.leafs;
	frame->nodes = graph.nodes;
	frame->leafs = graph.leafs;
}

static __always_inline void emit_allocation(struct task_struct *task, enum ggml_function function, __u64 bytes,
					    __u64 address)
{
	struct ggml_allocation_event *event =
		scope_reserve(task, stream_ggml_allocation, bpf_ktime_get_boot_ns(), sizeof(*event));

	if (!event)
		return;
	event->bytes = bytes;
	event->address = address;
	event->function = function;
	event->has_bytes = bytes != 0;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_ggml_allocation, sizeof(*event));
}

SEC("uprobe")
int ggml_enter(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ggml_place *place = place_numbered(number);
	__u64 first = PT_REGS_PARM1(ctx), second = PT_REGS_PARM2(ctx);
	enum ggml_function function;
	struct ggml_thread *thread;
	struct ggml_frame *frame;

	barrier_var(first); /* the verifier refuses reading at one of two places in ctx */
	barrier_var(second);
	if (!place)
		return 0;
	function = place->function;
	thread = calling_thread(task, number, stream_of(function));
	if (!thread)
		return 0;
	frame = enter_call(ctx, thread, number, stream_of(function));
	if (!frame)
		return 0;
	frame->nested = thread->calls.depth > 1;
	if (!computes(function)) {
		frame->bytes = function == GGML_ALIGNED_MALLOC ? first : second;
		frame->real_at = PT_REGS_PARM3(ctx);
		return 0;
	}
	read_graph(frame, function == GGML_GRAPH_COMPUTE ? first : second);
	where_mark(&frame->begun);
	frame->call.entered_ns = frame->begun.at_ns;
	return 0;
}

/* Frees are recorded at their begin: afterwards another thread may have got the same memory. */
SEC("uprobe")
int ggml_free(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ggml_place *place = place_numbered(number);
	__u64 first = PT_REGS_PARM1(ctx), second = PT_REGS_PARM2(ctx), address;
	bool pooled;

	barrier_var(first);
	barrier_var(second);
	if (!place || !calling_thread(task, number, stream_ggml_allocation))
		return 0;
	pooled = place->function == GGML_CUDA_POOL_FREE;
	address = pooled ? second : first;
	if (address)
		emit_allocation(task, place->function, forget_allocation(task, pooled ? GGML_POOL : GGML_HOST, address),
				address);
	return 0;
}

static __always_inline void emit_graph(struct task_struct *task, struct ggml_thread *thread, struct ggml_frame *frame,
				       enum ggml_function function, bool has_result, __s32 result)
{
	struct ggml_graph_event *event;
	struct scope_where where = {};
	bool has_where = where_between(&frame->begun, &thread->ended, &where);

	event = scope_reserve(task, stream_ggml_graph, frame->call.entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = thread->ended.at_ns - frame->call.entered_ns;
	event->where = where;
	event->nodes = frame->nodes;
	event->leafs = frame->leafs;
	event->result = result;
	event->function = function;
	event->has_shape = frame->has_shape;
	event->has_where = has_where;
	event->has_result = has_result;
	event->nested = frame->nested;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_ggml_graph, sizeof(*event));
}

SEC("uretprobe")
int ggml_return(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ggml_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ggml_place *place = place_numbered(number);
	__u64 result = PT_REGS_RC(ctx);
	struct ggml_frame *frame;

	if (!thread || !place)
		return 0;
	if (computes(place->function))
		where_mark(&thread->ended);
	frame = leave_call(ctx, thread, number);
	if (!frame)
		return 0;
	if (computes(place->function)) {
		emit_graph(task, thread, frame, place->function, true, result);
		return 0;
	}
	if (!result)
		return 0;
	if (place->function == GGML_CUDA_POOL_ALLOC)
		bpf_probe_read_user(&frame->bytes, sizeof(frame->bytes), (void *)frame->real_at);
	keep_allocation(task, place->function == GGML_CUDA_POOL_ALLOC ? GGML_POOL : GGML_HOST, result, frame->bytes);
	emit_allocation(task, place->function, frame->bytes, result);
	return 0;
}

static long abandon(__u32 index, void *unused)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ggml_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct ggml_frame *frame = thread ? end_call(thread) : NULL;
	const struct ggml_place *place = frame ? place_numbered(frame->call.place) : NULL;

	if (!frame)
		return 1;
	if (!place || !computes(place->function))
		return 0;
	where_mark(&thread->ended);
	emit_graph(task, thread, frame, place->function, false, 0);
	return 0;
}

/* Calls that a thread's end leaves do not return. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(ggml_abandon, struct task_struct *task)
{
	struct ggml_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread && thread->calls.depth)
		bpf_loop(GGML_DEPTH, abandon, NULL, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(ggml_replace, struct task_struct *task)
{
	struct ggml_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread)
		leave_all_calls(thread);
	leave_memory(task);
	return 0;
}
