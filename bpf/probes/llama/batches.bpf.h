/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads batches, token by token, and tells prompts from generated tokens. A batch holds tokens of any sequences, each
 * with its position and a flag that asks for its output, from which a token can be sampled.
 *
 * The first token of a sequence in a batch was generated if an output was sampled since its latest batch, its position
 * is the next one, and its output is wanted. Further tokens after it are drafts, which speculative decoding checks. All
 * other tokens belong to a prompt. A prompt after generated tokens begins another request.
 */
#ifndef SCOPE_LLAMA_BATCHES_BPF_H
#define SCOPE_LLAMA_BATCHES_BPF_H

#define LLAMA_NO_POSITION (-1)
#define LLAMA_WANTED 512 /* outputs of a filled batch */

/*
 * struct llama_batch in llama.h, which is passed on the stack. Ollama 0.5.13 to 0.24 have another member after `embd`:
 * their batches cannot be read and count as incomplete.
 */
struct llama_batch {
	__s32 tokens;
	__u64 token;
	__u64 embd;
	__u64 pos;
	__u64 n_seq_id;
	__u64 seq_id;
	__u64 logits;
};

/* The arrays of a struct llama_ubatch, in its order. */
struct llama_ubatch_arrays {
	__u64 pos;
	__u64 n_seq_id;
	__u64 seq_id;
	__u64 seq_id_unq;
	__u64 seq_idx;
	__u64 output;
};

/*
 * The begin of a struct llama_ubatch in llama-batch.h, since June 2025. Before September 2025, `n_pos` was padding.
 * Since autumn 2026 there is one more pointer before the arrays, `state`, so that they lie 8 bytes later.
 */
struct llama_ubatch {
	__u32 equal_seqs;
	__u32 tokens;
	__u32 seq_tokens;
	__u32 seqs;
	__u32 seqs_unq;
	__u32 n_pos;
	__u64 token;
	__u64 embd;
	union {
		struct llama_ubatch_arrays arrays;
		struct {
			__u64 state;
			struct llama_ubatch_arrays arrays;
		} later;
	};
};

/*
 * A struct llama_batch_ext, as far as the calls that fill it tell. Its parts (llama_ubatch) come in another order, so
 * only these calls tell the index by which a program later asks for an output.
 */
struct llama_filled {
	__u32 tokens;
	__u32 wanted;
	__u16 index[LLAMA_WANTED]; /* of the tokens whose output is wanted */
	__u8 sequence[LLAMA_BATCH];
};

struct llama_filled_key {
	__u64 start_ns;
	__u64 batch;
	__s32 pid;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct llama_filled_key);
	__type(value, struct llama_filled);
} llama_filled SEC(".maps");

static const struct llama_filled nothing_filled;

static __always_inline struct llama_filled *find_filled(struct task_struct *task, __u64 batch)
{
	struct llama_filled_key key = {.start_ns = task_start_ns(task), .batch = batch, .pid = task->tgid};

	return bpf_map_lookup_elem(&llama_filled, &key);
}

/* A batch is emptied; it can be followed from now on. */
static __always_inline int clear_batch(struct task_struct *task, __u64 batch)
{
	struct llama_filled_key key = {.start_ns = task_start_ns(task), .batch = batch, .pid = task->tgid};
	struct llama_filled *filled = bpf_map_lookup_elem(&llama_filled, &key);

	if (filled) {
		filled->tokens = 0;
		filled->wanted = 0;
		return 0;
	}
	bpf_map_update_elem(&llama_filled, &key, &nothing_filled, BPF_ANY);
	return 0;
}

static __always_inline int add_to_batch(struct task_struct *task, __u64 batch, __s32 sequence)
{
	struct llama_filled *filled = find_filled(task, batch);

	if (!filled)
		return 0;
	if (filled->tokens < LLAMA_BATCH)
		filled->sequence[filled->tokens & (LLAMA_BATCH - 1)] = sequence;
	filled->tokens++;
	return 0;
}

static __always_inline int want_output(struct task_struct *task, __u64 batch, __s32 index, bool wanted)
{
	struct llama_filled *filled = find_filled(task, batch);

	if (!filled || !wanted)
		return 0;
	if (filled->wanted < LLAMA_WANTED)
		filled->index[filled->wanted & (LLAMA_WANTED - 1)] = index;
	filled->wanted++;
	return 0;
}

struct wanting {
	struct llama_contexts_key of;
	__u64 batch;
};

static long take_wanted(__u32 i, const struct wanting *wanting)
{
	struct llama_filled *filled = find_filled(bpf_get_current_task_btf(), wanting->batch);
	struct llama_context_state *context = find_context(&wanting->of);
	__u32 index;

	if (!filled || !context || i >= filled->wanted)
		return 1;
	index = filled->index[i & (LLAMA_WANTED - 1)] & (LLAMA_BATCH - 1);
	context->last_output = index;
	context->output[index] = output_entry(context->decodes, filled->sequence[index]);
	return 0;
}

/* Takes the outputs that are wanted of a filled batch. Returns whether it is known which. */
static __always_inline bool take_wanted_outputs(struct task_struct *task, const struct llama_contexts_key *of,
						__u64 batch)
{
	struct wanting wanting = {.of = *of, .batch = batch};
	struct llama_filled *filled = find_filled(task, batch);
	struct llama_context_state *context = find_context(of);

	if (!filled || !filled->tokens || !context)
		return false;
	if (filled->wanted > LLAMA_WANTED || filled->tokens > LLAMA_BATCH) {
		context->unknown_outputs = 1;
		return true;
	}
	bpf_loop(LLAMA_WANTED, take_wanted, &wanting, 0);
	return true;
}

/* A change of positions of one sequence, or of all (-1), before the next batch. */
struct llama_shift {
	__s32 sequence;
	__s32 delta; /* 0: none */
};

#define LLAMA_SHIFTS 4 /* of different sequences, before one batch */

struct llama_shifts {
	struct llama_shift shift[LLAMA_SHIFTS];
	__u32 next;
};

SCOPE_THREAD_STATE(llama_shifts, struct llama_shifts);

static __always_inline int keep_shift(struct task_struct *task, __s32 sequence, __s32 delta)
{
	struct llama_shifts *shifts = bpf_task_storage_get(&llama_shifts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct llama_shift *next;

	if (!shifts)
		return 0;
	next = &shifts->shift[shifts->next++ & (LLAMA_SHIFTS - 1)];
	next->sequence = sequence;
	next->delta = delta;
	return 0;
}

static __always_inline void apply_shifts(struct llama_request_state *request, __s32 sequence)
{
	struct llama_shifts *shifts = bpf_task_storage_get(&llama_shifts, bpf_get_current_task_btf(), 0, 0);

	for (__u32 i = 0; i < LLAMA_SHIFTS && shifts; i++)
		if (shifts->shift[i].sequence < 0 || shifts->shift[i].sequence == sequence)
			request->at.position += shifts->shift[i].delta;
}

/* A batch ends: its sequences have been shifted. */
static __always_inline void forget_shifts(struct task_struct *task)
{
	struct llama_shifts *shifts = bpf_task_storage_get(&llama_shifts, task, 0, 0);

	if (shifts)
		__builtin_memset(shifts->shift, 0, sizeof(shifts->shift));
}

/* A batch that is being read. */
struct batch_walk {
	struct llama_contexts_key of;
	__u64 now_ns;
	__u64 positions; /* addresses of arrays; 0: none */
	__u64 sequences;
	__u64 wanted;
	__u32 tokens;
	__u32 before; /* tokens of the batch that were read in other parts */
	__u32 outputs;
	bool unread;	 /* some tokens could not be read */
	bool refused;	 /* there was no room for a request */
	bool by_order;	 /* the order of the tokens tells their indices */
	bool embeddings; /* not of words: those of an image may all have the same position */
};

static __always_inline bool follows(const struct llama_request_state *request, __s32 position)
{
	return position == LLAMA_NO_POSITION || position == request->at.position + (__s32)request->at.sampled;
}

/*
 * Does a token at this position belong to the request's prompt? Another prompt would not begin beyond what the sequence
 * has. Parts of a prompt may be missing if a batch was aborted, and positions may be left out behind an image.
 */
static __always_inline bool goes_on(const struct batch_walk *walk, const struct llama_request_state *request,
				    __s32 position)
{
	if (request->generated)
		return false;
	return !request->at.prompt_tokens || position == LLAMA_NO_POSITION || position > request->at.position ||
	       (walk->embeddings && position == request->at.position);
}

/* Takes the first token of a sequence in a batch. Returns the sequence's request; NULL: no room. */
static __always_inline struct llama_request_state *take_first(struct batch_walk *walk,
							      struct llama_context_state *context,
							      struct llama_request_state *request, __s32 sequence,
							      __s32 position, bool output)
{
	bool generated = false, rest = false, known = request;

	if (request) {
		apply_shifts(request, sequence);
		generated = request->at.sampled && output && follows(request, position);
		rest = generated || goes_on(walk, request, position);
	}
	if (rest && request->told) {
		request = resume_request(&walk->of, context, request, sequence, walk->now_ns);
	} else if (!rest) {
		request = begin_request(&walk->of, context, sequence, walk->now_ns);
		/* A prompt that an earlier batch had begun would have been in the batch before this one, too. */
		if (request)
			request->has_begin = known || context->from_begin || !position || context->decodes > 1;
		generated = request && !request->has_begin && output;
	}
	if (!request)
		return NULL;
	if (request->has_begin && !request->generated && !request->at.prompt_tokens) {
		request->cached_tokens = position > 0 ? position : 0;
		request->has_cached = position != LLAMA_NO_POSITION;
	}
	request->before = request->at;
	request->at.generates = generated;
	request->at.sampled = 0;
	request->at.output = 0;
	request->decode = context->decodes;
	request->at.decodes++;
	return request;
}

/*
 * A draft was given to a context. If the process has sampled the token for this very position in another context since
 * the latest token of the request, that one has proposed it. Some programs have one such context per sequence, in which
 * the sequence is 0.
 */
static __always_inline bool find_drafter(const struct llama_contexts_key *of, const struct llama_request_state *request,
					 __s32 sequence, __s32 position)
{
	struct llama_sampled_key key = {.start_ns = of->start_ns, .pid = of->pid, .sequence = sequence};
	const struct llama_sampled *sampled = bpf_map_lookup_elem(&llama_sampled, &key);
	struct llama_contexts_key drafter = *of;
	struct llama_context_state *context;

	if (!sampled || sampled->context == of->context || sampled->position != position ||
	    sampled->ktime_ns < request->last_ns)
		return false;
	drafter.context = sampled->context;
	context = find_context(&drafter);
	if (context)
		context->draft = 1;
	return true;
}

static __noinline int take_token(struct batch_walk *walk, __u32 index, __s32 sequence, __s32 position, bool output)
{
	struct llama_context_state *context;
	struct llama_request_state *request;

	context = find_context(&walk->of);
	if (!context)
		return 0;
	request = find_request(&walk->of, sequence);
	if (!request || request->decode != context->decodes) {
		request = take_first(walk, context, request, sequence, position, output);
		if (!request && !walk->refused)
			scope_count_loss(stream_llama_request, SCOPE_LOST_MAP_FULL);
		if (!request) {
			walk->refused = true;
			return 0;
		}
		request->at.position = position;
	} else if (request->at.generates) {
		request->at.drafted++;
		if (!find_drafter(&walk->of, request, sequence, position) && sequence)
			find_drafter(&walk->of, request, 0, position);
	}
	request->seen_ns = walk->now_ns;
	if (!request->at.generates) {
		request->at.prompt_tokens++;
		context->prompt_tokens++;
		request->at.position = position;
	}
	if (!output)
		return 0;
	walk->outputs++;
	if (!walk->by_order)
		return 0;
	context->last_output = index;
	barrier_var(index); /* keeps bound check and use in one register, as 6.1's verifier requires */
	if (index < LLAMA_BATCH)
		context->output[index & (LLAMA_BATCH - 1)] = output_entry(context->decodes, sequence);
	return 0;
}

static long read_token(__u32 i, struct batch_walk *walk)
{
	__s32 position = LLAMA_NO_POSITION, sequence = 0;
	__u8 wanted = i + 1 == walk->tokens;
	__u64 at = 0;
	long failed = 0;

	if (walk->positions)
		failed |= bpf_probe_read_user(&position, sizeof(position), (void *)(walk->positions + i * 4ULL));
	if (walk->sequences) {
		failed |= bpf_probe_read_user(&at, sizeof(at), (void *)(walk->sequences + i * 8ULL));
		failed |= bpf_probe_read_user(&sequence, sizeof(sequence), (void *)at);
	}
	if (walk->wanted)
		failed |= bpf_probe_read_user(&wanted, sizeof(wanted), (void *)(walk->wanted + i));
	if (failed) {
		walk->unread = true;
		return 1;
	}
	take_token(walk, walk->before + i, sequence, position, wanted);
	return 0;
}

/* Does the first token have as many sequences as is possible, and a possible one, if the arrays are these? */
static __always_inline bool are_arrays(const struct llama_ubatch_arrays *arrays)
{
	__s32 sequence = -1, sequences = 0;
	__u64 at = 0;

	if (!arrays->pos || !arrays->output ||
	    bpf_probe_read_user(&sequences, sizeof(sequences), (void *)arrays->n_seq_id) ||
	    bpf_probe_read_user(&at, sizeof(at), (void *)arrays->seq_id) ||
	    bpf_probe_read_user(&sequence, sizeof(sequence), (void *)at))
		return false;
	return sequences >= 1 && sequences <= LLAMA_SEQUENCES && sequence >= 0 && sequence < LLAMA_SEQUENCES;
}

/* Which arrays a part of a batch has; NULL: its layout is unknown. */
static __always_inline const struct llama_ubatch_arrays *arrays_of(const struct llama_ubatch *part)
{
	if (are_arrays(&part->arrays))
		return &part->arrays;
	return are_arrays(&part->later.arrays) ? &part->later.arrays : NULL;
}

static __noinline int read_tokens(struct batch_walk *walk)
{
	if (walk->tokens <= LLAMA_BATCH)
		bpf_loop(walk->tokens, read_token, walk, 0);
	else
		walk->unread = true;
	return 0;
}

#endif
