/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the caller of a function without a frame pointer, if the caller has one. Such functions are the stubs that
 * compilers make to launch kernels. The return address of the function is between the stack pointer and the frame
 * pointer, which is still the caller's. It is the word that points right after a call of this function. The search is
 * done once per call site.
 */
#ifndef SCOPE_FRAMELESS_BPF_H
#define SCOPE_FRAMELESS_BPF_H

#define MOST_STUBS 2	    /* nested in each other */
#define STUB_BYTES 4096	    /* of code */
#define STUB_WORDS 64	    /* of stack */
#define CODE_CALL 0xe8	    /* call rel32 */
#define CODE_CALL_BY 0x15ff /* call *rel32(%rip) */
#define CODE_JUMP_BY 0x25ff /* jmp *rel32(%rip) */
#define CODE_ENDBR 0xfa1e0ff3
#define CODE_FRAME 0xe5894855 /* push %rbp; mov %rsp,%rbp */
#define CODE_BND 0xf2

#if defined(__TARGET_ARCH_x86)

static __always_inline __u64 pointer_at(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

/* The target of a call through the procedure linkage table; 0: another kind of call. */
static __always_inline __u64 linked_function(__u64 entry)
{
	struct {
		__u16 jump;
		__s32 to;
	} __attribute__((packed)) code;
	__u32 first = 0;

	bpf_probe_read_user(&first, sizeof(first), (void *)entry);
	if (first == CODE_ENDBR) {
		entry += sizeof(first);
		bpf_probe_read_user(&first, sizeof(first), (void *)entry);
	}
	if ((first & 0xff) == CODE_BND)
		entry++;
	if (bpf_probe_read_user(&code, sizeof(code), (void *)entry) || code.jump != CODE_JUMP_BY)
		return 0;
	return pointer_at(entry + sizeof(code) + code.to);
}

/* Does a function start by setting up a frame? */
static __always_inline bool keeps_frame_pointer(__u64 function)
{
	__u32 code = 0;

	bpf_probe_read_user(&code, sizeof(code), (void *)function);
	if (code == CODE_ENDBR)
		bpf_probe_read_user(&code, sizeof(code), (void *)function + sizeof(code));
	return code == CODE_FRAME;
}

/*
 * The distance of `inside` from the start of a function, if `word` is the address after a call of this function; else
 * more than STUB_BYTES.
 */
static __always_inline __u64 distance_in_called(__u64 word, __u64 inside)
{
	struct {
		__u8 before;
		__u8 call;
		__s32 to;
	} __attribute__((packed)) code;
	__u64 target = 0;

	if (word < STUB_BYTES || word >> 47 || bpf_probe_read_user(&code, sizeof(code), (void *)(word - sizeof(code))))
		return inside;
	if (code.call == CODE_CALL) {
		target = word + code.to;
		if (inside - target >= STUB_BYTES)
			target = linked_function(target);
	} else if ((code.call << 8 | code.before) == CODE_CALL_BY) {
		target = pointer_at(word + code.to);
	}
	return inside - target;
}

struct stub_search {
	__u64 from;
	__u64 to;
	__u64 inside;
	__u64 distance; /* from the nearest start so far */
	__u64 offset;
};

static long search_stub(__u32 index, struct stub_search *search)
{
	__u64 at = search->from + index * sizeof(__u64), distance;

	if (at >= search->to)
		return 1;
	distance = distance_in_called(pointer_at(at), search->inside);
	if (distance >= search->distance || keeps_frame_pointer(search->inside - distance))
		return 0;
	search->distance = distance;
	search->offset = (index + 1) * sizeof(__u64);
	return 0;
}

/*
 * The distance from `at`, the stack pointer at the call, up to the return address of a frame's function; 0: the
 * function has a frame. Several words may look like return addresses, left on the stack by earlier calls; the right one
 * is the call of the function that starts nearest.
 */
static __noinline __u64 find_step(const struct user_frame *frame, __u64 at)
{
	struct stub_search search = {.from = at, .to = frame->outer, .inside = frame->return_address};

	search.distance = distance_in_called(pointer_at(frame->outer + sizeof(__u64)), frame->return_address);
	if (search.distance > STUB_BYTES)
		search.distance = STUB_BYTES;
	bpf_loop(STUB_WORDS, search_stub, &search, 0);
	return search.offset;
}

/*
 * Steps to the caller of a function without a frame pointer; false: the function has one, or this is unknown.
 *
 * at: in: the stack pointer when the function's callee returns; out: the stack pointer when the function returns.
 */
static __always_inline bool step_over(struct task_struct *task, struct stack_memory *memory, struct user_frame *frame,
				      __u64 *at)
{
	struct stack_step *step = &memory->steps[frame->return_address >> 2 & (STACKS_RECENT - 1)];

	if (!frame->return_address)
		return false;
	if (step->return_address != frame->return_address || step->exec_id != task->self_exec_id) {
		step->offset = find_step(frame, *at);
		step->return_address = frame->return_address;
		step->exec_id = task->self_exec_id;
	}
	if (!step->offset)
		return false;
	*at += step->offset;
	frame->return_address = pointer_at(*at - sizeof(__u64));
	return true;
}

#else

/* On this architecture, compilers keep frame pointers in all functions that call others. */
static __always_inline bool step_over(struct task_struct *task, struct stack_memory *memory, struct user_frame *frame,
				      __u64 *at)
{
	return false;
}

#endif
#endif
