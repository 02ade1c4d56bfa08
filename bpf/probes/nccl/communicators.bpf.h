/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which communicator a handle is, and which rank: known of communicators whose initialisation was seen. */
#ifndef SCOPE_NCCL_COMMUNICATORS_BPF_H
#define SCOPE_NCCL_COMMUNICATORS_BPF_H

#include "held.bpf.h"

#define NCCL_MOST_DEVICES 64

struct nccl_communicators_key {
	__u64 start_ns;
	__u64 comm;
	__s32 pid;
	__u32 pad;
};

SCOPE_SHARED(struct, nccl_communicators_key);

struct nccl_communicator {
	__u64 hash;	   /* of its unique id, or of its parent and the split */
	__u64 collectives; /* called so far by this rank */
	__u64 splits;	   /* the same */
	__s32 rank;	   /* below 0: unknown, like nranks */
	__s32 nranks;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct nccl_communicators_key);
	__type(value, struct nccl_communicator);
} nccl_communicators SEC(".maps");

struct nccl_arrival {
	__u64 communicator;
	__u64 sequence;
};

/* When the first rank on this machine called a collective. Those of long ago are forgotten. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct nccl_arrival);
	__type(value, __u64);
} nccl_arrivals SEC(".maps");

/*
 * How many collectives of a communicator the rank on this machine that is furthest ahead has called. It tells whether a
 * rank is the first to call one, or the first one's time is forgotten. The ranks of a communicator end at different
 * times, and may be killed, so none of them deletes it: communicators that are not used make room for new ones.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} nccl_called SEC(".maps");

/* What the ranks of a communicator on this machine have split it by. */
struct nccl_splitting {
	__u64 communicator;
	__u64 number; /* of the split, from 0 */
	__s32 rank;
	__u32 pad;
};

struct nccl_choice {
	__s32 color;
	__s32 key;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct nccl_splitting);
	__type(value, struct nccl_choice);
} nccl_choices SEC(".maps");

/* FNV-1a, by words. High bits of a word change low bits, too. */
static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x100000001b3;
	return hash ^ hash >> 32;
}

/* A hash of the unique id at an address. 0: it cannot be read. */
static __always_inline __u64 read_id(struct nccl_thread *thread, __u64 address)
{
	__u64 hash = 0xcbf29ce484222325;

	if (bpf_probe_read_user(thread->id, sizeof(thread->id), (void *)address))
		return 0;
	for (int i = 0; i < NCCL_ID_WORDS; i++)
		hash = mixed(hash, thread->id[i]);
	return hash;
}

/*
 * Reads id and rank of an initialisation at its first instruction. An id that is passed by value is on the stack above
 * the return address on x86-64 (System V ABI, 3.2.3); on arm64, its address is passed (AAPCS64, 6.8.2, B.4).
 */
static __always_inline void read_init(struct pt_regs *ctx, struct nccl_thread *thread, struct nccl_frame *frame,
				      enum nccl_kind kind)
{
	__u64 id = frame->args[4];

	frame->nranks = frame->args[1];
	frame->rank = frame->args[2];
	if (kind == NCCL_INIT_RANK) {
#if defined(__TARGET_ARCH_x86)
		id = PT_REGS_SP(ctx) + 8;
#elif defined(__TARGET_ARCH_arm64)
		id = frame->args[2];
		frame->rank = frame->args[3];
#endif
	}
	frame->communicator = read_id(thread, id);
	frame->has_communicator = frame->has_rank = frame->communicator != 0;
}

static __always_inline struct nccl_communicator *known(struct task_struct *task, __u64 comm)
{
	struct nccl_communicators_key key = {.start_ns = running_start_ns(), .comm = comm, .pid = task->tgid};

	return bpf_map_lookup_elem(&nccl_communicators, &key);
}

static __always_inline void learn(struct task_struct *task, __u64 comm, __u64 hash, __s32 rank, __s32 nranks)
{
	struct nccl_communicators_key key = {.start_ns = running_start_ns(), .comm = comm, .pid = task->tgid};
	struct nccl_communicator found = {.hash = hash, .rank = rank, .nranks = nranks};
	__u64 none = 0;

	if (!comm || !hash)
		return;
	bpf_map_update_elem(&nccl_communicators, &key, &found, BPF_ANY);
	bpf_map_update_elem(&nccl_called, &hash, &none, BPF_NOEXIST);
}

static __always_inline void forget(struct task_struct *task, __u64 comm)
{
	struct nccl_communicators_key key = {.start_ns = running_start_ns(), .comm = comm, .pid = task->tgid};

	bpf_map_delete_elem(&nccl_communicators, &key);
}

/*
 * How much later than the first rank this one calls a collective. The first one notes its time before it says that it
 * has called, so another rank cannot take its place when the time is forgotten.
 */
static __always_inline void find_late(struct nccl_frame *frame)
{
	struct nccl_arrival arrival = {.communicator = frame->communicator, .sequence = frame->sequence};
	__u64 *called = bpf_map_lookup_elem(&nccl_called, &arrival.communicator), *first_ns;

	if (called && *(volatile __u64 *)called <= frame->sequence) {
		bpf_map_update_elem(&nccl_arrivals, &arrival, &frame->call.entered_ns, BPF_NOEXIST);
		raise(called, frame->sequence + 1);
	}
	first_ns = bpf_map_lookup_elem(&nccl_arrivals, &arrival);
	if (!first_ns) { /* it is forgotten */
		scope_count_incomplete(scope_summarize ? stream_nccl_call_summary : stream_nccl_call);
		return;
	}
	frame->has_late = 1;
	if (*first_ns < frame->call.entered_ns)
		frame->late_ns = frame->call.entered_ns - *first_ns;
}

static __always_inline void recall(struct task_struct *task, struct nccl_frame *frame, enum nccl_kind kind, __u64 comm)
{
	struct nccl_communicator *found = known(task, comm);

	if (!found)
		return;
	frame->communicator = found->hash;
	frame->rank = found->rank;
	frame->nranks = found->nranks;
	frame->has_communicator = 1;
	frame->has_rank = found->rank >= 0;
	if (kind != NCCL_COLLECTIVE || frame->nested)
		return;
	frame->sequence = __sync_fetch_and_add(&found->collectives, 1);
	frame->has_sequence = 1;
	find_late(frame);
}

/* A rank begins to split a communicator. No rank's call returns with a communicator before all have begun. */
static __always_inline void note_split(struct task_struct *task, const struct nccl_frame *frame)
{
	struct nccl_communicator *parent = known(task, frame->args[0]);
	struct nccl_choice choice = {.color = frame->args[1], .key = frame->args[2]};
	struct nccl_splitting splitting = {};

	if (!parent || parent->rank < 0)
		return;
	splitting.communicator = parent->hash;
	splitting.number = parent->splits;
	splitting.rank = parent->rank;
	bpf_map_update_elem(&nccl_choices, &splitting, &choice, BPF_ANY);
}

struct split_walk {
	struct nccl_splitting splitting;
	struct nccl_choice own;
	__s32 parent_rank;
	__s32 rank;
	__s32 nranks;
};

static long split_next(__u32 parent_rank, struct split_walk *walk)
{
	struct nccl_choice *choice;

	walk->splitting.rank = parent_rank;
	choice = bpf_map_lookup_elem(&nccl_choices, &walk->splitting);
	if (!choice) { /* it is on another machine, or not recorded */
		walk->rank = -1;
		return 1;
	}
	if (choice->color == walk->own.color) {
		walk->nranks++;
		walk->rank += choice->key < walk->own.key ||
			      (choice->key == walk->own.key && (__s32)parent_rank < walk->parent_rank);
	}
	return 0;
}

/* Notes the communicator that a rank has got by a split: ranks are in the order of their keys, then of their ranks. */
static __always_inline void learn_split(struct task_struct *task, struct nccl_frame *frame, __u64 comm)
{
	struct split_walk walk = {.own = {.color = frame->args[1], .key = frame->args[2]}};
	struct nccl_communicator *parent = known(task, frame->args[0]);

	if (!parent)
		return;
	walk.splitting.communicator = parent->hash;
	walk.splitting.number = parent->splits++;
	walk.parent_rank = parent->rank;
	if (!comm) /* no color, or NCCL gives the handle later */
		return;
	if (parent->rank < 0)
		walk.rank = -1;
	else
		bpf_loop(parent->nranks, split_next, &walk, 0);
	frame->communicator = mixed(mixed(parent->hash, walk.splitting.number), walk.own.color);
	frame->rank = walk.rank;
	frame->nranks = walk.nranks;
	frame->has_communicator = 1;
	frame->has_rank = walk.rank >= 0;
	learn(task, comm, frame->communicator, frame->rank, frame->nranks);
}

struct learn_walk {
	__u64 comms;
	__u64 hash;
	__s32 nranks;
};

static long learn_next(__u32 rank, struct learn_walk *walk)
{
	__u64 comm = 0;

	if (bpf_probe_read_user(&comm, sizeof(comm), (void *)(walk->comms + rank * sizeof(comm))))
		return 1;
	learn(bpf_get_current_task_btf(), comm, walk->hash, rank, walk->nranks);
	return 0;
}

/* Notes communicators that a call has made. Returns the handle, if it has made one. */
static __always_inline __u64 learn_made(struct task_struct *task, struct nccl_thread *thread, struct nccl_frame *frame,
					const struct nccl_place *place, __s32 result)
{
	struct learn_walk walk = {.comms = frame->args[0], .hash = thread->made, .nranks = frame->args[1]};
	__u64 comm = 0;

	if (fails(result))
		return 0;
	if (place->kind == NCCL_INIT_ALL) {
		if (walk.nranks > 0)
			bpf_loop(walk.nranks < NCCL_MOST_DEVICES ? walk.nranks : NCCL_MOST_DEVICES, learn_next, &walk,
				 0);
		return 0;
	}
	bpf_probe_read_user(&comm, sizeof(comm), (void *)argument(frame, place->comm));
	if (place->kind == NCCL_INIT_OTHER || place->kind == NCCL_SPLIT)
		forget(task, comm);
	if (place->kind == NCCL_SPLIT)
		learn_split(task, frame, comm);
	else if (place->kind != NCCL_INIT_OTHER)
		learn(task, comm, frame->communicator, frame->rank, frame->nranks);
	return comm;
}

#endif
