/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unwinds user stacks by the tables that compilers make for exceptions (.eh_frame), so that code without frame pointers
 * has whole stacks. User space makes each file's table once (unwind.h), and tells which files a process has mapped
 * where. Code without a table is unwound by its frame pointer, if this leads to code that is known.
 */
#ifndef SCOPE_UNWIND_BPF_H
#define SCOPE_UNWIND_BPF_H

#include "unwind.h"

#define UNWIND_TABLES 4096
#define UNWIND_MAPPINGS 512
#define UNWIND_WORD 8

SCOPE_SHARED(enum, unwind_rule);

struct unwind_mapping {
	__u64 start;
	__u64 end;
	__u64 bias;  /* address of what rows call 0 */
	__u32 table; /* slot in unwind_tables */
	__u32 rows;  /* 0: no table */
};

/* The code of a process, in order of address. */
struct unwind_process {
	__u32 count;
	__u32 pad;
	struct unwind_mapping mappings[UNWIND_MAPPINGS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __s32); /* host pid */
	__type(value, struct unwind_process);
} unwind_processes SEC(".maps");

/* Only defines the type: user space creates a map for each file. */
struct unwind_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP);
	__type(key, __u32);
	__type(value, struct unwind_row);
} unwind_first SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_TABLES);
	__type(key, __u32);
	__array(values, struct unwind_table);
} unwind_tables SEC(".maps");

/* The rest of a walk is in its memory. */
struct unwinding {
	const struct unwind_process *process;
	struct stack_memory *memory;
};

struct unwind_search {
	const void *in; /* a struct unwind_process, or a table */
	struct unwind_place *place;
};

static long search_mapping(__u32 index, struct unwind_search *search)
{
	const struct unwind_process *process = search->in;
	struct unwind_place *place = search->place;
	__u32 middle = (place->low + place->high) / 2;

	if (place->low >= place->high || middle >= UNWIND_MAPPINGS)
		return 1;
	if (process->mappings[middle].end <= place->wanted)
		place->low = middle + 1;
	else
		place->high = middle;
	return 0;
}

/* The mapping with this code; NULL: it is not known. */
static __always_inline const struct unwind_mapping *mapping_at(const struct unwind_process *process,
							       struct unwind_place *place, __u64 pc)
{
	struct unwind_search search = {.in = process, .place = place};
	const struct unwind_mapping *found;
	__u32 index;

	place->wanted = pc;
	place->low = 0;
	place->high = process->count;
	bpf_loop(10, search_mapping, &search, 0); /* 2^9 mappings */
	index = place->low;
	barrier_var(index);
	if (index >= UNWIND_MAPPINGS || index >= process->count)
		return NULL;
	found = &process->mappings[index];
	return pc >= found->start ? found : NULL;
}

/* Searches the last row that is not behind the wanted place. */
static long search_row(__u32 index, struct unwind_search *search)
{
	struct unwind_place *place = search->place;
	__u32 middle = (place->low + place->high) / 2;
	struct unwind_row *row;

	if (place->low >= place->high)
		return 1;
	row = bpf_map_lookup_elem((void *)search->in, &middle);
	if (!row)
		return 1;
	if (row->pc <= place->wanted) {
		place->row = *row;
		place->low = middle + 1;
	} else {
		place->high = middle;
	}
	return 0;
}

static __always_inline bool row_at(const struct unwind_mapping *mapping, struct unwind_place *place, __u64 pc)
{
	struct unwind_search search = {.place = place};
	__u32 slot = mapping->table;

	search.in = bpf_map_lookup_elem(&unwind_tables, &slot);
	if (!mapping->rows || !search.in)
		return false;
	place->wanted = pc - mapping->bias;
	place->low = 0;
	place->high = mapping->rows;
	bpf_loop(32, search_row, &search, 0);
	return place->low > 0;
}

#if defined(__TARGET_ARCH_x86)

/* Members of struct ucontext with its registers: arch/x86/include/uapi/asm/{ucontext,sigcontext}.h */
#define UCONTEXT_FP 120
#define UCONTEXT_SP 160
#define UCONTEXT_PC 168

/* Goes to the caller by a row's rule. Returns whether there is one. */
static __always_inline bool unwind_by(struct unwind_walk *at, const struct unwind_row *row)
{
	__s64 words = (__s64)row->cfa * UNWIND_WORD, saved = (__s64)row->fp * UNWIND_WORD;
	__u64 cfa;

	if (row->rule == UNWIND_SIGNAL) {
		at->pc = word_at(at->sp + UCONTEXT_PC) + 1; /* the interrupted instruction */
		at->fp = word_at(at->sp + UCONTEXT_FP);
		at->sp = word_at(at->sp + UCONTEXT_SP);
		return at->pc > 1;
	}
	if (row->rule == UNWIND_SP)
		cfa = at->sp + words;
	else if (row->rule == UNWIND_FP)
		cfa = at->fp + words;
	else if (row->rule == UNWIND_FP_AT)
		cfa = word_at(at->fp + words);
	else if (row->rule == UNWIND_PLT)
		cfa = at->sp + ((at->pc - 1 & 15) >= (__u64)row->cfa ? 2 : 1) * UNWIND_WORD;
	else
		return false;
	if (cfa <= at->sp) /* stacks grow downwards */
		return false;
	if (row->fp == UNWIND_SAVED_AT_FP)
		at->fp = word_at(at->fp);
	else if (row->fp)
		at->fp = word_at(cfa + saved);
	at->pc = own_return(word_at(cfa - UNWIND_WORD), cfa - UNWIND_WORD);
	at->sp = cfa;
	return at->pc;
}

/* Goes to the caller by the frame pointer. */
static __always_inline bool unwind_by_frame_pointer(struct unwind_walk *at)
{
	struct user_frame frame;

	if (at->fp < at->sp || at->fp & 7 || bpf_probe_read_user(&frame, sizeof(frame), (void *)at->fp))
		return false;
	at->pc = own_return(frame.return_address, at->fp + UNWIND_WORD);
	at->sp = at->fp + sizeof(frame);
	at->fp = frame.outer;
	return at->pc;
}

static long unwind_frame(__u32 index, struct unwinding *unwinding)
{
	struct stack_memory *memory = unwinding->memory;
	struct unwind_walk *at = &memory->unwound;
	struct unwind_place *place = &memory->place;
	const struct unwind_mapping *mapping = mapping_at(unwinding->process, place, at->pc - 1);
	struct scope_stack *stack = &memory->walked;
	__u32 depth = stack->user_depth; /* kept there, since the verifier would try each value of a variable */
	bool has_caller;

	barrier_var(depth);
	if (depth >= STACK_FRAMES) {
		stack->flags |= STACK_CUT_USER;
		return 1;
	}
	stack->user[depth] = at->pc;
	stack->user_depth = depth + 1;
	at->hash = mix(at->hash, at->pc);
	if (mapping && row_at(mapping, place, at->pc - 1) && place->row.rule != UNWIND_UNKNOWN) {
		has_caller = unwind_by(at, &place->row);
		memory->tops[depth] = has_caller ? at->sp : ~0ULL;
		if (!has_caller && place->row.rule != UNWIND_END)
			stack->flags |= STACK_CUT_USER;
		return !has_caller;
	}
	stack->flags |= STACK_BY_FRAME_POINTERS;
	has_caller = unwind_by_frame_pointer(at) && mapping_at(unwinding->process, place, at->pc - 1);
	memory->tops[depth] = has_caller ? at->sp : ~0ULL;
	if (!has_caller)
		stack->flags |= STACK_CUT_USER;
	return !has_caller;
}

/*
 * Unwinds the running thread's user stack into `walked`, from these registers on. Returns the hash; 0: the process is
 * not known (yet), and nothing was written.
 */
__noinline __u64 unwind_stack(struct stack_memory *memory, __u64 pc, __u64 sp, __u64 fp, __u64 hash)
{
	struct unwinding unwinding = {.memory = memory};
	__s32 pid = bpf_get_current_task_btf()->tgid;

	unwinding.process = bpf_map_lookup_elem(&unwind_processes, &pid);
	if (!memory || !unwinding.process)
		return 0;
	memory->walked.user_depth = 0;
	memory->walked.flags = 0;
	memory->unwound.pc = pc;
	memory->unwound.sp = sp;
	memory->unwound.fp = fp;
	memory->unwound.hash = hash;
	bpf_loop(STACK_FRAMES + 1, unwind_frame, &unwinding, 0);
	return memory->unwound.hash ? memory->unwound.hash : 1;
}

#else

/* Compilers keep frame pointers on this architecture. */
static __always_inline __u64 unwind_stack(struct stack_memory *memory, __u64 pc, __u64 sp, __u64 fp, __u64 hash)
{
	return 0;
}

#endif

/* A child has its parent's code at the same addresses. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(unwind_fork, struct task_struct *parent, struct task_struct *child)
{
	__s32 from = parent->tgid, to = child->tgid;
	struct unwind_process *process = from == to ? NULL : bpf_map_lookup_elem(&unwind_processes, &from);

	if (process)
		bpf_map_update_elem(&unwind_processes, &to, process, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(unwind_exec, struct task_struct *task)
{
	__s32 pid = task->tgid;

	bpf_map_delete_elem(&unwind_processes, &pid);
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(unwind_forget, struct task_struct *task)
{
	__s32 pid = task->tgid;

	if (task->pid == pid)
		bpf_map_delete_elem(&unwind_processes, &pid);
	return 0;
}

#endif
