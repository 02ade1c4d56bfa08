/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walks the frames of a Python interpreter, in the thread that runs it, and tells which C functions of the native stack
 * run them.
 */
#ifndef SCOPE_PYTHON_BPF_H
#define SCOPE_PYTHON_BPF_H

#include "python_code.bpf.h"
#include "python_interpreter.bpf.h"
#include "python_thread.bpf.h"

static long search_native(__u32 index, struct python_walk *walk)
{
	struct stack_memory *memory = walk->memory;
	__u32 native = memory->native;

	if (native >= STACK_FRAMES || native >= memory->walked.user_depth)
		return 1;
	if (memory->tops[native] > memory->python.local)
		return 1;
	memory->native = native + 1;
	return 0;
}

/* The C function with this variable on its stack, as the number to keep in `entered`. */
static __always_inline __u32 entered_by(struct python_walk *walk, __u64 local)
{
	walk->memory->python.local = local;
	bpf_loop(STACK_FRAMES, search_native, walk, 0);
	if (walk->memory->native >= walk->memory->walked.user_depth)
		return PYTHON_ENTERED;
	return PYTHON_ENTERED_AT + walk->memory->native;
}

static __always_inline __u32 instruction_of(const struct python_offsets *at, __u64 frame, __u64 code)
{
	__u64 instruction = word_at(frame + at->instruction);

	if (at->instruction_is == PYTHON_POINTER)
		return instruction - code - at->bytecode;
	return at->instruction_is == PYTHON_UNITS ? instruction * 2 : instruction;
}

/* Records a frame. Returns 1 if the walk ends here. */
static __always_inline long record_python_frame(struct python_walk *walk, __u64 frame)
{
	const struct python_offsets *at = &walk->process->at;
	__u64 code = word_at(frame + at->code) & ~1ULL; /* 3.14 tags the pointer in its lowest bit */
	struct python_position *place = &walk->memory->python;
	struct scope_stack *stack = &walk->memory->walked;
	__u32 depth = stack->python_depth; /* kept there, since the verifier would try each value of a variable */
	struct python_codes_key key;
	struct python_frame *kept;
	__u8 is_entry = !at->has_owner;

	if (word_at(code + 8) != walk->process->code_type) { /* it is just made, or cannot be read */
		stack->flags |= STACK_CUT_PYTHON;
		return 1;
	}
	barrier_var(depth);
	if (depth >= STACK_PYTHON_FRAMES) {
		stack->flags |= STACK_CUT_PYTHON;
		return 1;
	}
	kept = &stack->python[depth];
	place->code.number = code_number(at, code);
	key = place->code;
	if (!bpf_map_lookup_elem(&python_codes, &key) && keep_code(at, code, place))
		stack->flags |= STACK_CODE_UNKNOWN;
	if (at->has_is_entry)
		bpf_probe_read_user(&is_entry, sizeof(is_entry), (void *)(frame + at->is_entry));
	kept->code = place->code.number;
	kept->instruction = instruction_of(at, frame, code);
	kept->entered = is_entry ? PYTHON_ENTERED : PYTHON_NOT_ENTERED;
	if (is_entry && at->has_cframe && place->cframe) {
		kept->entered = entered_by(walk, place->cframe);
		place->cframe = word_at(place->cframe + at->cframe_previous);
	}
	place->hash = mix(mix(place->hash, kept->code), kept->instruction);
	stack->python_depth = depth + 1;
	return 0;
}

/* Visits the innermost frame that is left, and goes on to the one around it. */
static long walk_python_frame(__u32 index, struct python_walk *walk)
{
	const struct python_offsets *at = &walk->process->at;
	struct scope_stack *stack = &walk->memory->walked;
	struct python_position *place = &walk->memory->python;
	__u32 inner;
	__u8 owner = 0;

	if (at->has_owner)
		bpf_probe_read_user(&owner, sizeof(owner), (void *)(place->frame + at->owner));
	if (at->has_owner && owner >= at->no_owner_from) { /* C code has called the frame inside this one */
		inner = stack->python_depth - 1;
		barrier_var(inner);
		if (inner < STACK_PYTHON_FRAMES)
			stack->python[inner].entered = entered_by(walk, place->frame);
	} else if (record_python_frame(walk, place->frame)) {
		return 1;
	}
	if (bpf_probe_read_user(&place->frame, sizeof(place->frame), (void *)(place->frame + at->previous))) {
		stack->flags |= STACK_CUT_PYTHON;
		return 1;
	}
	return !place->frame;
}

/* Walks the running thread's Python frames, if it has any. Returns the hash, with these frames. */
__noinline __u64 walk_python(struct stack_memory *memory, __u64 hash)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct python_walk walk = {.memory = memory};
	const struct python_offsets *at;
	struct python_position *place;
	__s32 pid = task->tgid;
	__u64 state;

	if (!memory) /* never NULL, but the verifier does not know */
		return hash;
	memory->walked.python_depth = 0;
	memory->native = 0;
	walk.process = bpf_map_lookup_elem(&python_processes, &pid);
	if (!walk.process)
		return hash;
	state = thread_state_of(task, &walk);
	if (!state)
		return hash;
	at = &walk.process->at;
	place = &memory->python;
	place->hash = hash;
	place->cframe = at->has_cframe ? word_at(state + at->cframe) : 0;
	place->frame = word_at(state + at->frame);
	if (at->frame_is_behind)
		place->frame = word_at(place->frame + at->frame_in_it);
	place->code.start_ns = running_start_ns();
	place->code.pid = pid;
	if (place->frame)
		bpf_loop(2 * STACK_PYTHON_FRAMES, walk_python_frame, &walk, 0);
	return place->hash;
}

#endif
