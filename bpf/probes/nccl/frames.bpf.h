/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Data about the attached functions, and about a thread's open calls. */
#ifndef SCOPE_NCCL_FRAMES_BPF_H
#define SCOPE_NCCL_FRAMES_BPF_H

enum nccl_kind {
	NCCL_PLAIN,	    /* only time, result and communicator are recorded */
	NCCL_COLLECTIVE,    /* all ranks of the communicator call it, in the same order */
	NCCL_POINT,	    /* sends to a peer, or receives from it */
	NCCL_INIT_RANK,	    /* (comm *, ranks, id by value, rank, ...) */
	NCCL_INIT_SCALABLE, /* (comm *, ranks, rank, number of ids, ids, config) */
	NCCL_INIT_ALL,	    /* (comm *, devices, ...): makes the communicators of all ranks, in this process */
	NCCL_SPLIT,	    /* (comm, color, key, new comm *, ...): all ranks call it; those of a color get one */
	NCCL_INIT_OTHER,    /* makes a communicator of another one; its rank is not an argument */
	NCCL_END,	    /* (comm) */
	NCCL_GROUP_END,	    /* ends a group, and starts what was called in it */
	NCCL_WAIT,	    /* (stream): returns when the stream's work is done */
	NCCL_WAIT_ALL,	    /* (): returns when the work of all streams is done */
	/* These make no rows: */
	NCCL_GROUP_START,
	NCCL_GET_ID, /* (id *): returns a new unique id */
};

/* A function: the numbers of its arguments; below 0: no such argument. */
struct nccl_place {
	enum nccl_kind kind;
	__u8 arguments; /* number of arguments to read */
	__s8 count;
	__s8 dtype;
	__s8 op;
	__s8 root;
	__s8 peer;
	__s8 comm; /* of a function that makes one: where it returns the handle */
	__s8 stream;
};

SCOPE_PLACES(struct nccl_place);

#define NCCL_IN_PROGRESS 7 /* ncclInProgress in nccl.h */
#define NCCL_DEPTH 4	   /* nested calls; a power of two */
#define NCCL_ID_WORDS 16   /* NCCL_UNIQUE_ID_BYTES in nccl.h: 128 */

struct nccl_frame {
	struct scope_call call;
	__u64 args[CALL_ARGUMENTS];
	__u64 communicator; /* its hash */
	__u64 sequence;
	__u64 late_ns;
	__u64 calls; /* that a wait for a stream is for */
	__u64 bytes; /* theirs */
	__s32 rank;
	__s32 nranks;
	__u8 has_communicator;
	__u8 has_rank;
	__u8 has_sequence;
	__u8 has_late;
	__u8 nested;   /* inside a recorded call */
	__u8 covers;   /* calls inside this one are nested */
	__u8 in_group; /* between ncclGroupStart and ncclGroupEnd of the thread */
	__u8 pad;
};

struct nccl_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	__u32 groups; /* open groups, one in another */
	__u32 pad;
	__u64 made;		 /* hash of the latest id that the thread has made */
	__u64 id[NCCL_ID_WORDS]; /* a copy */
	struct nccl_frame frames[NCCL_DEPTH];
};

SCOPE_THREADS(struct nccl_thread);
SCOPE_CALLS(struct nccl_thread, struct nccl_frame);

static __always_inline __u64 argument(const struct nccl_frame *frame, __s8 number)
{
	__u32 index = number;

	if (index >= CALL_ARGUMENTS)
		return 0;
	barrier_var(index);
	return frame->args[index & (CALL_ARGUMENTS - 1)];
}

static __always_inline bool makes_rows(enum nccl_kind kind)
{
	return kind < NCCL_GROUP_START;
}

static __always_inline bool waits(enum nccl_kind kind)
{
	return kind == NCCL_WAIT || kind == NCCL_WAIT_ALL;
}

/* A call that fails: not one that goes on, of a communicator that does not block. */
static __always_inline bool fails(__s32 result)
{
	return result && result != NCCL_IN_PROGRESS;
}

#endif
