/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Computations of graphs. */
#ifndef SCOPE_GGML_GRAPHS_BPF_H
#define SCOPE_GGML_GRAPHS_BPF_H

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

static __always_inline void emit_graph(struct task_struct *task, struct ggml_thread *thread, struct ggml_frame *frame,
				       enum ggml_function function, bool has_result, __s32 result)
{
	struct ggml_graph_event *event;
	struct scope_where where;

	where_between(&frame->begun, &thread->ended, &where);
	if (where.unknown_ns)
		scope_count_incomplete(stream_ggml_graph);
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
	event->has_result = has_result;
	event->nested = frame->nested;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_ggml_graph, sizeof(*event));
}

#endif
