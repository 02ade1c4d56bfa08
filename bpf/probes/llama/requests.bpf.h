/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The contexts of watched processes, and the requests in them. A sequence of a context has one request at a time: a
 * prompt, which may be computed in several batches, then tokens, one or more per batch.
 */
#ifndef SCOPE_LLAMA_REQUESTS_BPF_H
#define SCOPE_LLAMA_REQUESTS_BPF_H

#define LLAMA_CONTEXTS 1024
#define LLAMA_REQUESTS 16384
#define LLAMA_BATCH 8192    /* tokens of a batch that is read: more would take the program's time */
#define LLAMA_SEQUENCES 256 /* LLAMA_MAX_SEQ in llama-cparams.h; the output table keeps a sequence in a byte */
#define LLAMA_IDLE_NS 2000000000ULL

struct llama_contexts_key {
	__u64 start_ns; /* of the process */
	__u64 context;
	__s32 pid;
	__u32 pad;
};

/* Sums over all calls of a context; never reset. */
struct llama_sums {
	__u64 decode_ns;
	__u64 wait_ns;
	__u64 others_run_queue_ns; /* what other threads of the process waited for a CPU meanwhile */
	__u64 tokens;		   /* in the batches */
	__u64 prompt_tokens;	   /* of these, those of prompts */
	struct llama_spent spent;
	struct llama_outside outside;
};

SCOPE_SHARED(struct, llama_contexts_key);

struct llama_context_state {
	struct llama_sums sums;
	__u64 requests;		/* number of the latest */
	__u64 decodes;		/* number of the latest batch, from 1 */
	struct where_mark left; /* the time before belongs to calls, or is counted as outside of them */
	__u32 left_by;		/* the thread, whose sums these are */
	__u32 open;		/* a call computes or waits: one at a time, as llama.h demands */
	__u32 prompt_tokens;	/* in the latest batch */
	__s32 last_output;
	__u8 from_begin;      /* seen since the context was made */
	__u8 draft;	      /* proposes tokens to another context, which checks them: speculative decoding */
	__u8 unknown_outputs; /* of the latest batch */
	__u8 read;	      /* an output of it was read */
	__u8 pad[4];
	__u32 output[LLAMA_BATCH]; /* by index in the batch: number of the batch and sequence, see output_entry */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LLAMA_CONTEXTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct llama_contexts_key);
	__type(value, struct llama_context_state);
} llama_contexts SEC(".maps");

/* Processes with a context, so that the end of other processes and their threads costs nothing. */
struct llama_processes_key {
	__u64 start_ns;
	__s32 pid;
	__u32 pad;
};

SCOPE_SHARED(struct, llama_processes_key);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LLAMA_CONTEXTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct llama_processes_key);
	__type(value, __u64); /* how long threads that have ended had waited for a CPU, in ns */
} llama_processes SEC(".maps");

struct llama_requests_key {
	__u64 start_ns;
	__u64 context;
	__s32 pid;
	__s32 sequence;
};

SCOPE_SHARED(struct, llama_requests_key);

/* How far a request is. */
struct llama_progress {
	__s32 position; /* of the token from which the next ones are sampled */
	__u32 sampled;	/* tokens sampled since the latest batch */
	__u32 output;	/* index of the output that was sampled last, plus 1 */
	__u32 prompt_tokens;
	__u32 drafted;
	__u32 decodes;
	__u32 generates; /* the latest batch has no tokens of the prompt */
};

struct llama_request_state {
	struct scope_identity whose;
	struct llama_sums then; /* the context's sums at the latest token, or at the begin */
	__u64 number;		/* in its context */
	__u64 began_ns;
	__u64 first_ns; /* when it got its first token; 0: none yet */
	__u64 last_ns;	/* when it got its latest token, or began */
	__u64 seen_ns;	/* when a batch or a token of it was seen last */
	__u64 decode;	/* number of the latest batch with its tokens */
	struct llama_progress at;
	struct llama_progress before; /* the latest batch, in case that it fails */
	__u32 cached_tokens;
	__u32 generated;
	__u32 told; /* its row was emitted, while it was idle */
	__u8 has_begin;
	__u8 has_cached;
	__u8 pad[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LLAMA_REQUESTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct llama_requests_key);
	__type(value, struct llama_request_state);
} llama_requests SEC(".maps");

/* Where a process has sampled a token of a sequence last: in which context, and for which position. */
struct llama_sampled_key {
	__u64 start_ns;
	__s32 pid;
	__s32 sequence;
};

struct llama_sampled {
	__u64 context;
	__u64 ktime_ns;
	__s32 position;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LLAMA_REQUESTS);
	__type(key, struct llama_sampled_key);
	__type(value, struct llama_sampled);
} llama_sampled SEC(".maps");

/* New entries of the maps. */
static const struct llama_context_state no_context;
static const struct llama_request_state no_request;

static __always_inline __u32 output_entry(__u64 decode, __s32 sequence)
{
	return (__u32)decode << 8 | (sequence & (LLAMA_SEQUENCES - 1));
}

/* How long the other threads of the running process have waited for a CPU. */
static __always_inline __u64 others_waited(struct task_struct *task)
{
	struct llama_processes_key key = {.start_ns = task_start_ns(task), .pid = task->tgid};
	__u64 *ended_ns = bpf_map_lookup_elem(&llama_processes, &key);

	return (ended_ns ? *ended_ns : 0) + delay_of_others();
}

/* A thread of a process ends: what it waited would be missing later. */
static __always_inline void keep_waited(struct task_struct *task)
{
	struct llama_processes_key key = {.start_ns = task_start_ns(task), .pid = task->tgid};
	__u64 *ended_ns = bpf_map_lookup_elem(&llama_processes, &key);

	if (ended_ns && bpf_core_field_exists(task->sched_info.run_delay))
		__sync_fetch_and_add(ended_ns, task->sched_info.run_delay);
}

static __always_inline struct llama_context_state *find_context(const struct llama_contexts_key *key)
{
	return bpf_map_lookup_elem(&llama_contexts, key);
}

/* The time until now belongs to a call of the running thread, or is counted already. */
static __always_inline void leave_context(struct llama_context_state *context, const struct task_struct *task,
					  const struct where_mark *now)
{
	context->left = *now;
	context->left_by = task->pid;
}

/* Counts the time since the context was left as outside of its calls. */
static __always_inline void return_to_context(struct llama_context_state *context, const struct task_struct *task,
					      const struct where_mark *now)
{
	struct scope_where where = {};

	if (context->left_by == task->pid)
		where_between(&context->left, now, &where);
	else if (context->left_by)
		where.unknown_ns = now->at_ns - context->left.at_ns;
	add_outside(&context->sums.outside, &where);
	leave_context(context, task, now);
}

/* The context, made if it is not known yet; NULL: no room. */
static __always_inline struct llama_context_state *make_context(const struct llama_contexts_key *key)
{
	struct llama_processes_key process = {.start_ns = key->start_ns, .pid = key->pid};
	struct llama_context_state *context = find_context(key);
	__u64 waited_ns = 0;

	if (context)
		return context;
	bpf_map_update_elem(&llama_processes, &process, &waited_ns, BPF_NOEXIST);
	if (!bpf_map_lookup_elem(&llama_processes, &process))
		return NULL; /* its end would not be noticed */
	bpf_map_update_elem(&llama_contexts, key, &no_context, BPF_NOEXIST);
	return find_context(key);
}

static __always_inline struct llama_request_state *find_request(const struct llama_contexts_key *of, __s32 sequence)
{
	struct llama_requests_key key = {
		.start_ns = of->start_ns, .context = of->context, .pid = of->pid, .sequence = sequence};

	return bpf_map_lookup_elem(&llama_requests, &key);
}

/* When anything of the request happened last. */
static __always_inline __u64 last_seen(const struct llama_request_state *request,
				       const struct llama_context_state *context)
{
	__u64 seen_ns = request->seen_ns;

	if (context && context->decodes == request->decode && context->left.at_ns > seen_ns)
		seen_ns = context->left.at_ns;
	return seen_ns;
}

/* Emits the row of a request, once. */
static __noinline int emit_request(const struct llama_requests_key *key, struct llama_request_state *request,
				   enum llama_ended ended)
{
	const struct llama_context_state *context;
	struct llama_contexts_key of = {};
	struct llama_request_event *event;

	if (__sync_val_compare_and_swap(&request->told, 0, 1))
		return 0;
	of.start_ns = key->start_ns;
	of.context = key->context;
	of.pid = key->pid;
	context = find_context(&of);
	event = scope_reserve_for(&request->whose, stream_llama_request, request->began_ns, sizeof(*event));
	if (!event)
		return 0;
	event->duration_ns = (request->generated ? request->last_ns : last_seen(request, context)) - request->began_ns;
	event->context = key->context;
	event->request = request->number;
	event->ttft_ns = request->first_ns - request->began_ns;
	event->generation_ns = request->last_ns - request->first_ns;
	event->sequence = key->sequence;
	event->prompt_tokens = request->at.prompt_tokens;
	event->cached_tokens = request->cached_tokens;
	event->generated_tokens = request->generated;
	event->drafted_tokens = request->at.drafted;
	event->decodes = request->at.decodes;
	event->ended = ended;
	event->has_begin = request->has_begin;
	event->has_first = request->has_begin && request->first_ns;
	event->has_tokens = request->first_ns != 0;
	event->has_cached = request->has_begin && request->has_cached;
	event->draft = context && context->draft;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_llama_request, sizeof(*event));
	return 0;
}

/* Begins a request of a sequence, and ends the one before. NULL: no room. */
static __always_inline struct llama_request_state *
begin_request(const struct llama_contexts_key *of, struct llama_context_state *context, __s32 sequence, __u64 now_ns)
{
	struct llama_requests_key key = {
		.start_ns = of->start_ns, .context = of->context, .pid = of->pid, .sequence = sequence};
	struct llama_request_state *request = bpf_map_lookup_elem(&llama_requests, &key);

	if (request)
		emit_request(&key, request, LLAMA_ENDED_REPLACED);
	bpf_map_update_elem(&llama_requests, &key, &no_request, BPF_ANY);
	request = bpf_map_lookup_elem(&llama_requests, &key);
	if (!request)
		return NULL;
	fill_identity(&request->whose, bpf_get_current_task_btf());
	request->number = ++context->requests;
	request->then = context->sums;
	request->began_ns = request->last_ns = now_ns;
	return request;
}

/* A request whose row was emitted while it was idle goes on: another row tells of the rest. NULL: no room. */
static __always_inline struct llama_request_state *resume_request(const struct llama_contexts_key *of,
								  struct llama_context_state *context,
								  struct llama_request_state *idle, __s32 sequence,
								  __u64 now_ns)
{
	struct llama_progress at = idle->at;
	__u64 decode = idle->decode;
	struct llama_request_state *request = begin_request(of, context, sequence, now_ns);

	if (!request)
		return NULL;
	request->decode = decode;
	request->at.position = at.position;
	request->at.sampled = at.sampled;
	request->at.generates = 1;
	return request;
}

/* A batch that failed; the program may give it, or parts of it, again. */
struct failing {
	struct llama_contexts_key of;
	__u64 decode;
};

static long take_back(void *map, const struct llama_requests_key *key, struct llama_request_state *request,
		      const struct failing *failing)
{
	if (key->start_ns == failing->of.start_ns && key->pid == failing->of.pid &&
	    key->context == failing->of.context && request->decode == failing->decode) {
		request->at = request->before;
		request->decode = 0;
	}
	return 0;
}

/* Takes the tokens of a batch that failed back from their requests. */
static __always_inline void take_batch_back(const struct llama_contexts_key *of,
					    const struct llama_context_state *context)
{
	struct failing failing = {.of = *of, .decode = context->decodes};

	bpf_for_each_map_elem(&llama_requests, take_back, &failing, 0);
}

static long drop_request(void *map, const struct llama_requests_key *key, struct llama_request_state *request,
			 const struct llama_contexts_key *of)
{
	struct llama_context_state *context = find_context(of);

	if (!context || request->told || key->start_ns != of->start_ns || key->pid != of->pid ||
	    key->context != of->context)
		return 0;
	bpf_map_delete_elem(map, key);
	context->requests--;
	return 0;
}

/*
 * The memory of a context is cleared. If no output of it was ever read, its batches were no requests: servers compute
 * some tokens to warm up, and to find out what the context can do.
 */
static __always_inline int clear_context(struct llama_contexts_key *of)
{
	const struct llama_context_state *context = find_context(of);

	if (context && context->from_begin && !context->read)
		bpf_for_each_map_elem(&llama_requests, drop_request, of, 0);
	return 0;
}

/* Which requests to end. */
struct ending {
	__u64 start_ns; /* only those of this process and, unless it is 0, of this context; 0: of all */
	__u64 context;
	__u64 idle_since_ns; /* only those without anything since then, which are kept: they may go on; 0: all */
	__s32 pid;
	enum llama_ended ended;
};

static long end_request(void *map, const struct llama_requests_key *key, struct llama_request_state *request,
			struct ending *ending)
{
	struct llama_contexts_key of = {};
	struct llama_context_state *context;

	if (ending->start_ns && (key->start_ns != ending->start_ns || key->pid != ending->pid))
		return 0;
	if (ending->context && key->context != ending->context)
		return 0;
	of.start_ns = key->start_ns;
	of.context = key->context;
	of.pid = key->pid;
	context = find_context(&of);
	if (ending->idle_since_ns &&
	    ((context && context->open) || last_seen(request, context) > ending->idle_since_ns))
		return 0;
	emit_request(key, request, ending->ended);
	if (!ending->idle_since_ns)
		bpf_map_delete_elem(map, key);
	return 0;
}

static long forget_context(void *map, const struct llama_contexts_key *key, struct llama_context_state *context,
			   struct ending *ending)
{
	if (key->start_ns == ending->start_ns && key->pid == ending->pid &&
	    (!ending->context || key->context == ending->context))
		bpf_map_delete_elem(map, key);
	return 0;
}

/* Ends the requests of a process or of one of its contexts, and forgets the contexts. */
static __noinline int end_requests(struct ending *ending)
{
	struct llama_processes_key process = {};

	process.start_ns = ending->start_ns;
	process.pid = ending->pid;
	if (!bpf_map_lookup_elem(&llama_processes, &process))
		return 0;
	if (!ending->context)
		bpf_map_delete_elem(&llama_processes, &process);
	bpf_for_each_map_elem(&llama_requests, end_request, ending, 0);
	bpf_for_each_map_elem(&llama_contexts, forget_context, ending, 0);
	return 0;
}

/*
 * User space runs this program once a second, with 0, and when the trace ends, with 1: emits the requests that have
 * been idle for a while, or all.
 */
SEC("raw_tp")
int llama_settle(struct bpf_raw_tracepoint_args *ctx)
{
	bool all = ctx->args[0];
	struct ending ending = {.ended = all ? LLAMA_ENDED_NOT : LLAMA_ENDED_IDLE};

	if (!all)
		ending.idle_since_ns = bpf_ktime_get_boot_ns() - LLAMA_IDLE_NS;
	bpf_for_each_map_elem(&llama_requests, end_request, &ending, 0);
	return 0;
}

#endif
