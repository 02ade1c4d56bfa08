/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call stacks: of user space, by frame pointers; of Python, walked in the interpreter's own frames; and of the kernel,
 * for probes that want them. A probe that defines STACK_UNWOUND has user stacks by unwind tables, once a process is
 * known; so the same code may have two stacks in the first milliseconds of a process. Each distinct stack of a process
 * is kept once; its number is a hash of its frames and the process. It is complete before its number is used. User
 * space resolves the addresses with the mappings of the process at that time.
 */
#ifndef SCOPE_STACK_BPF_H
#define SCOPE_STACK_BPF_H

/* The most frames of each kind; a probe may define others before it includes this file. */
#ifndef STACK_FRAMES
#define STACK_FRAMES 64
#endif
#ifndef STACK_PYTHON_FRAMES
#define STACK_PYTHON_FRAMES 32
#endif

#include "unwind.h"

#define E2BIG 7		/* include/uapi/asm-generic/errno-base.h */
#define EEXIST 17	/* likewise */
#define STACKS_RECENT 8 /* latest numbers of a thread; a power of two */

/* What is to be known about a stack, as bits. */
enum scope_stack_flag {
	STACK_CUT_USER = 1, /* outer frames are missing */
	STACK_CUT_PYTHON = 2,
	STACK_CUT_KERNEL = 4,
	STACK_CODE_UNKNOWN = 8,	      /* a Python frame's code object, for which there was no room */
	STACK_BY_FRAME_POINTERS = 16, /* some frames were found by frame pointers, and may be none */
	STACK_AT_SWITCH = 32,	      /* the innermost kernel frames are those of a program at a switch */
};

SCOPE_SHARED(enum, scope_stack_flag);

/*
 * Who called a Python frame: the Python frame around it, both run by the same C function; or C code, so that it is the
 * first one that a C function runs. From PYTHON_ENTERED_AT on: that C function is user frame number entered -
 * PYTHON_ENTERED_AT.
 */
enum python_entered {
	PYTHON_NOT_ENTERED,
	PYTHON_ENTERED,
	PYTHON_ENTERED_AT,
};

SCOPE_SHARED(enum, python_entered);

/* A frame of the Python interpreter. */
struct python_frame {
	__u64 code;	   /* number of the code object in python_codes */
	__u32 instruction; /* offset in the bytecode, in bytes */
	__u32 entered;	   /* PYTHON_NOT_ENTERED, PYTHON_ENTERED, or more */
};

struct scope_stack {
	__u64 ktime_ns; /* when the stack was first seen */
	__u8 user_depth;
	__u8 python_depth;
	__u8 kernel_depth;
	__u8 flags; /* enum scope_stack_flag */
	__u32 pad;
	__u64 user[STACK_FRAMES]; /* innermost first, like the others; return addresses */
	struct python_frame python[STACK_PYTHON_FRAMES];
#ifdef STACK_KERNEL_FRAMES
	__u64 kernel[STACK_KERNEL_FRAMES];
#endif
};

struct scope_stacks_key {
	__u64 start_ns;
	__u64 number;
	__s32 pid;
	__u32 pad;
};

/* User space deletes entries once it has their text, and after their process has ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct scope_stacks_key);
	__type(value, struct scope_stack);
} scope_stacks SEC(".maps");

/* How often user space has deleted entries: a number that was kept before may stand for none. */
__u64 scope_stacks_round SEC(".data.round");

/* Stacks that were not kept, by reason. */
struct stacks_unkept {
	__u64 full;    /* the map had no room */
	__u64 refused; /* no memory for the entry, or another program of this CPU was changing the map */
};

struct stacks_unkept scope_stacks_unkept SEC(".data.unkept");

/* The distance from a return address on the stack to the next one, for a function without a frame pointer. */
struct stack_step {
	__u64 return_address;
	__u64 exec_id; /* identifies the executed program: another has other code at this address */
	__u64 offset;  /* 0: the function keeps a frame pointer */
};

/* Where unwinding is. */
struct unwind_walk {
	__u64 pc; /* a return address; where the walk begins, one more than the next instruction */
	__u64 sp;
	__u64 fp;
	__u64 hash;
};

/* A binary search. */
struct unwind_place {
	__u64 wanted;
	__u32 low; /* the first one that may be it */
	__u32 high;
	struct unwind_row row;
};

struct python_codes_key {
	__u64 start_ns;
	__u64 number;
	__s32 pid;
	__u32 pad;
};

/* Where a walk of Python frames is. */
struct python_position {
	struct python_codes_key code; /* the latest code object */
	__u64 frame;
	__u64 cframe;
	__u64 hash;
	__u64 local;	 /* address of a variable of a C function */
	__u64 thread_id; /* these three: of the search for a thread's state */
	__u64 interpreter;
	__u64 state;	  /* candidate */
	__u64 lines_from; /* these three: of a copy of a line table */
	__u32 lines_bytes;
	__u32 lines_failed;
};

/* A thread's data for stacks. What a walk needs is here too: programs have little stack. */
struct stack_memory {
	__u64 recent[STACKS_RECENT]; /* numbers of kept stacks */
	__u64 round;		     /* the round in which they were kept */
	struct stack_step steps[STACKS_RECENT];
	struct scope_stack walked;
	__u64 tops[STACK_FRAMES]; /* where each user frame's memory ends; 0: unknown */
	struct unwind_walk unwound;
	struct unwind_place place;
	struct python_position python;
	__u32 native; /* the walk of Python frames has come to this user frame */
	__u32 pad;
};

static __always_inline __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

#include "returns.bpf.h"

#include "frameless.bpf.h"
#include "python.bpf.h"
#include "unwind.bpf.h"

/* Walks by frame pointers; `count` frames are there already. Returns the hash. */
static __always_inline __u64 walk_frames(struct stack_memory *memory, struct user_frame frame, __u32 count, __u64 hash)
{
	struct scope_stack *stack = &memory->walked;
	__u64 at = 0;

	for (int i = 0; i < STACK_FRAMES; i++) {
		if (!frame.return_address || count >= STACK_FRAMES)
			break;
		barrier_var(count);
		stack->user[count & (STACK_FRAMES - 1)] = frame.return_address;
		memory->tops[count & (STACK_FRAMES - 1)] = 0;
		count++;
		hash = mix(hash, frame.return_address);
		if (frame.outer <= at || frame.outer & 7) { /* not a frame: stacks grow downwards */
			frame.return_address = 0;
			break;
		}
		at = frame.outer;
		frame.return_address = 0;
		if (bpf_probe_read_user(&frame, sizeof(frame), (void *)at))
			frame.return_address = 0;
		frame.return_address = own_return(frame.return_address, at + sizeof(frame.outer));
	}
	stack->user_depth = count;
	stack->flags = (frame.return_address ? STACK_CUT_USER : 0) | STACK_BY_FRAME_POINTERS;
	return hash;
}

/*
 * Walks a native stack into `walked`, starting at the frame of the function that is entered, and returns a hash. A
 * global function, so that the verifier checks its many paths only once. (bpf_get_stack() takes twice as long, and
 * before 6.12 it leaves out the caller.)
 *
 * at: the stack pointer at the call of the function.
 */
__noinline __u64 walk_stack(const struct user_frame *entry, __u64 at, struct stack_memory *memory)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct scope_stack *stack;
	struct user_frame frame;
	__u64 hash, stub;
	__u32 count = 0;

	if (!entry || !memory) /* never NULL, but the verifier does not know */
		return 0;
	frame = *entry;
	frame.return_address = own_return(frame.return_address, at - sizeof(frame.return_address));
	stack = &memory->walked;
	hash = mix(running_start_ns(), untrusted(task)->mm->start_stack);
#ifdef STACK_UNWOUND
	stub = unwind_stack(memory, frame.return_address, at, frame.outer, hash);
	if (stub)
		return stub;
#endif
	for (int i = 0; i < MOST_STUBS; i++) {
		stub = frame.return_address;
		if (!step_over(task, memory, &frame, &at))
			break;
		stack->user[i] = stub;
		count = i + 1;
		hash = mix(hash, stub);
	}
	return walk_frames(memory, frame, count, hash);
}

/* Keeps the walked stack under its number. Returns 0 if it could not be kept: incomplete for the stream. */
static __always_inline __u64 put_stack(struct task_struct *task, struct stack_memory *memory, __u64 hash, __u16 stream)
{
	__u64 number = hash >> 1; /* 63 bits, since the database's integers are signed */
	struct scope_stacks_key key = {.start_ns = running_start_ns(), .pid = task->tgid, .number = number};
	__u64 *recent = &memory->recent[number & (STACKS_RECENT - 1)], round = *(volatile __u64 *)&scope_stacks_round;
	long error;

	if (memory->walked.flags & STACK_CODE_UNKNOWN)
		scope_count_incomplete(stream);
	if (memory->round != round) {
		__builtin_memset(memory->recent, 0, sizeof(memory->recent));
		memory->round = round;
	}
	if (*recent == number)
		return number;
	memory->walked.ktime_ns = bpf_ktime_get_boot_ns();
	error = bpf_map_update_elem(&scope_stacks, &key, &memory->walked, BPF_NOEXIST);
	if (error && error != -EEXIST) {
		__sync_fetch_and_add(error == -E2BIG ? &scope_stacks_unkept.full : &scope_stacks_unkept.refused, 1);
		scope_count_incomplete(stream);
		return 0;
	}
	*recent = number;
	return number;
}

/* Walks and keeps a stack. Returns 0 if it could not be kept. */
static __always_inline __u64 keep_stack(struct task_struct *task, const struct user_frame *entry, __u64 at,
					struct stack_memory *memory, __u16 stream)
{
	__u64 hash = walk_python(memory, walk_stack(entry, at, memory));

	return put_stack(task, memory, hash, stream);
}

#endif
