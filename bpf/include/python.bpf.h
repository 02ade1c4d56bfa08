/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walks the frames of a Python interpreter, in the thread that runs it. User space has told where the interpreter keeps
 * what (scope_bpf.code.python): that differs between versions. A code object is identified by its address and by what
 * it points to; its name, file and line table are kept when it is first seen, so that they outlive it.
 */
#ifndef SCOPE_PYTHON_BPF_H
#define SCOPE_PYTHON_BPF_H

#define PYTHON_NAME 128	 /* bytes of a function's name */
#define PYTHON_FILE 224	 /* bytes of a path */
#define PYTHON_LINES 480 /* bytes of a piece of a line table */
#define PYTHON_PIECES 64
#define PYTHON_INTERPRETERS 8
#define PYTHON_THREADS 1024
#define PYTHON_AGAIN_NS 50000000 /* until a thread without Python is looked up again */

/* How a frame tells its instruction. */
enum python_instruction {
	PYTHON_POINTER, /* address of the instruction */
	PYTHON_BYTES,	/* offset in bytes */
	PYTHON_UNITS,	/* offset in instructions of two bytes */
};

SCOPE_SHARED(enum, python_instruction);

/* Where members are in the interpreter's structs. */
struct python_offsets {
	__u16 interpreters;	/* _PyRuntimeState: first interpreter */
	__u16 next_interpreter; /* PyInterpreterState */
	__u16 threads;		/* PyInterpreterState: first thread */
	__u16 next_thread;	/* PyThreadState, like the next three */
	__u16 thread_id;
	__u16 frame;	   /* the innermost frame, or a struct that points to it */
	__u16 frame_in_it; /* offset in that struct */
	__u16 previous;	   /* frame, like the next four */
	__u16 code;
	__u16 instruction;
	__u16 owner;
	__u16 is_entry;
	__u16 cframe;	       /* PyThreadState: struct on the stack of the C function that runs the innermost frame */
	__u16 cframe_previous; /* the same of the one around it */
	__u16 file;	       /* PyCodeObject, like the next four */
	__u16 name;
	__u16 first_line;
	__u16 lines;
	__u16 bytecode;
	__u16 ascii;	      /* size of PyASCIIObject */
	__u16 compact;	      /* size of PyCompactUnicodeObject */
	__u8 frame_is_behind; /* `frame` is a pointer to a struct */
	__u8 has_owner;
	__u8 no_owner_from; /* owners from this number on: no Python frame, but an entry from C */
	__u8 has_is_entry;
	__u8 has_cframe;
	__u8 instruction_is; /* enum python_instruction */
};

/* A process with an interpreter. */
struct python_process {
	__u64 runtime;	 /* address of _PyRuntime */
	__u64 code_type; /* address of PyCode_Type */
	struct python_offsets at;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __s32); /* host pid */
	__type(value, struct python_process);
} python_processes SEC(".maps");

SCOPE_SHARED(struct, python_process);

/* A text as the interpreter keeps it: one, two or four bytes a character. */
struct python_text {
	__u32 length; /* characters of the whole text */
	__u16 bytes;  /* that are kept */
	__u8 width;
	__u8 pad;
};

struct python_code {
	struct python_text name;
	struct python_text file;
	__u32 first_line;
	__u32 lines_bytes;
	__u8 name_bytes[PYTHON_NAME]; /* its begin */
	__u8 file_bytes[PYTHON_FILE]; /* its end */
};

/* Preallocated: a first stack has dozens of new code objects, and allocation on demand fails in such bursts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct python_codes_key);
	__type(value, struct python_code);
} python_codes SEC(".maps");

struct python_lines_key {
	__u64 start_ns;
	__u64 number; /* of the code object */
	__s32 pid;
	__u32 piece;
};

struct python_lines {
	__u8 bytes[PYTHON_LINES];
};

/* Line tables, in pieces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct python_lines_key);
	__type(value, struct python_lines);
} python_lines SEC(".maps");

/* The interpreter's own state of a thread, found once. */
struct python_thread {
	__u64 state; /* address of its PyThreadState; 0: none */
	__u64 looked_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct python_thread);
} python_threads SEC(".maps");

/* Memory to compose map entries; a program that interrupts another one uses the next. */
struct python_made {
	struct python_code code;
	struct python_lines lines;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct python_made);
} python_making SEC(".maps");

/* A global function, since each of its callers would need stack for the value. */
__noinline __u64 word_at(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

/* What pthread_self() returns in the running thread, which is what Python keeps as the thread's id. */
static __always_inline __u64 own_thread_id(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#elif defined(__TARGET_ARCH_arm64)
	return task->thread.uw.tp_value;
#endif
}

/* The rest of a walk is in its memory. */
struct python_walk {
	const struct python_process *process;
	struct stack_memory *memory;
};

static long search_thread(__u32 index, struct python_walk *walk)
{
	const struct python_offsets *at = &walk->process->at;
	struct python_place *search = &walk->memory->python;

	if (!search->state || word_at(search->state + at->thread_id) == search->thread_id)
		return 1;
	search->state = word_at(search->state + at->next_thread);
	return 0;
}

static long search_interpreter(__u32 index, struct python_walk *walk)
{
	const struct python_offsets *at = &walk->process->at;
	struct python_place *search = &walk->memory->python;

	if (!search->interpreter)
		return 1;
	search->state = word_at(search->interpreter + at->threads);
	bpf_loop(PYTHON_THREADS, search_thread, walk, 0);
	if (search->state)
		return 1;
	search->interpreter = word_at(search->interpreter + at->next_interpreter);
	return 0;
}

/* The PyThreadState of the running thread; 0: it has none, or there is no memory. */
static __always_inline __u64 thread_state_of(struct task_struct *task, struct python_walk *walk)
{
	const struct python_process *process = walk->process;
	struct python_place *search = &walk->memory->python;
	struct python_thread *thread = bpf_task_storage_get(&python_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 now_ns = bpf_ktime_get_boot_ns();

	search->thread_id = own_thread_id(task);
	if (!thread || !search->thread_id)
		return 0;
	if (thread->state && word_at(thread->state + process->at.thread_id) == search->thread_id)
		return thread->state;
	if (!thread->state && now_ns - thread->looked_ns < PYTHON_AGAIN_NS)
		return 0;
	search->state = 0;
	search->interpreter = word_at(process->runtime + process->at.interpreters);
	bpf_loop(PYTHON_INTERPRETERS, search_interpreter, walk, 0);
	thread->state = search->state;
	thread->looked_ns = now_ns;
	return search->state;
}

/* Describes a str, and returns the address of its characters; 0: it is none that can be read. */
static __always_inline __u64 open_text(const struct python_offsets *at, __u64 object, struct python_text *text)
{
	struct { /* PyASCIIObject after the object's header: since 3.3, Include/cpython/unicodeobject.h */
		__u64 length;
		__u64 hash;
		__u32 state; /* interned: 2 bits, kind: 3, compact: 1, ascii: 1 */
	} head;

	text->length = text->bytes = text->width = 0;
	if (bpf_probe_read_user(&head, sizeof(head), (void *)(object + 16)) || !(head.state >> 5 & 1))
		return 0;
	text->length = head.length;
	text->width = head.state >> 2 & 7;
	return object + (head.state >> 6 & 1 ? at->ascii : at->compact);
}

static __noinline int keep_code_name(const struct python_offsets *at, __u64 object, struct python_code *code)
{
	__u64 from, bytes;

	if (!at || !code)
		return 0;
	from = open_text(at, object, &code->name);
	bytes = (__u64)code->name.length * code->name.width;
	if (bytes > PYTHON_NAME)
		bytes = PYTHON_NAME;
	barrier_var(bytes);
	if (!from || !bytes || bytes > PYTHON_NAME || bpf_probe_read_user(code->name_bytes, bytes, (void *)from))
		return 0;
	code->name.bytes = bytes;
	return 0;
}

static __noinline int keep_code_file(const struct python_offsets *at, __u64 object, struct python_code *code)
{
	__u64 from, bytes, all;

	if (!at || !code)
		return 0;
	from = open_text(at, object, &code->file);
	bytes = all = (__u64)code->file.length * code->file.width;
	if (bytes > PYTHON_FILE)
		bytes = PYTHON_FILE;
	barrier_var(bytes);
	if (!from || !bytes || bytes > PYTHON_FILE ||
	    bpf_probe_read_user(code->file_bytes, bytes, (void *)(from + all - bytes)))
		return 0;
	code->file.bytes = bytes;
	return 0;
}

struct python_copy {
	struct python_place *place;
	struct python_lines *lines;
};

static long copy_lines(__u32 index, struct python_copy *copy)
{
	struct python_place *place = copy->place;
	struct python_lines_key key;
	__u32 done = index * PYTHON_LINES, bytes = place->lines_bytes - done;
	long error;

	if (done >= place->lines_bytes)
		return 1;
	if (bytes > PYTHON_LINES)
		bytes = PYTHON_LINES;
	barrier_var(bytes);
	if (bytes > PYTHON_LINES ||
	    bpf_probe_read_user(copy->lines->bytes, bytes, (void *)(place->lines_from + done))) {
		place->lines_failed = 1;
		return 1;
	}
	key.start_ns = place->code.start_ns;
	key.number = place->code.number;
	key.pid = place->code.pid;
	key.piece = index;
	error = bpf_map_update_elem(&python_lines, &key, copy->lines, BPF_NOEXIST);
	if (!error || error == -EEXIST)
		return 0;
	place->lines_failed = 1;
	return 1;
}

/*
 * Keeps a code object under its number, which is in `place`. Returns 0, or -1: then it is tried again when the code is
 * seen again.
 */
static __noinline int keep_code(const struct python_offsets *at, __u64 address, struct python_place *place)
{
	struct python_copy copy = {.place = place};
	struct python_codes_key key;
	struct python_made *made;
	__u32 zero = 0;
	__u64 lines;

	made = bpf_map_lookup_elem(&python_making, &zero);
	if (!made || !at || !place)
		return -1;
	lines = word_at(address + at->lines);
	made->code.lines_bytes = word_at(lines + 16); /* ob_size of a PyBytesObject; its bytes begin at 32 */
	made->code.first_line = word_at(address + at->first_line);
	keep_code_name(at, word_at(address + at->name), &made->code);
	keep_code_file(at, word_at(address + at->file), &made->code);
	copy.lines = &made->lines;
	place->lines_from = lines + 32;
	place->lines_bytes = made->code.lines_bytes;
	place->lines_failed = 0;
	bpf_loop(PYTHON_PIECES, copy_lines, &copy, 0);
	key = place->code; /* before 6.2, a key cannot be in memory that was handed on */
	if (place->lines_failed || bpf_map_update_elem(&python_codes, &key, &made->code, BPF_ANY))
		return -1;
	return 0;
}

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

/* The number of a code object: of its address, and of what it points to. */
static __always_inline __u64 code_number(const struct python_offsets *at, __u64 code)
{
	__u64 number = mix(mix(code, word_at(code + at->name)), word_at(code + at->lines));

	return mix(mix(number, (__u32)word_at(code + at->first_line)), word_at(code + at->file));
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
	struct python_place *place = &walk->memory->python;
	struct scope_stack *stack = &walk->memory->walked;
	__u32 depth = stack->python_depth; /* kept there, since the verifier would try each value of a variable */
	struct python_codes_key key;
	struct python_frame *kept;
	__u8 is_entry = !at->has_owner;

	if (word_at(code + 8) != walk->process->code_type)
		return 1; /* a frame that is just made, or none */
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
	struct python_place *place = &walk->memory->python;
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
	place->frame = word_at(place->frame + at->previous);
	return !place->frame;
}

/* Walks the running thread's Python frames, if it has any. Returns the hash, with these frames. */
__noinline __u64 walk_python(struct stack_memory *memory, __u64 hash)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct python_walk walk = {.memory = memory};
	const struct python_offsets *at;
	struct python_place *place;
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

/* A child has its parent's interpreter at the same addresses. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(python_fork, struct task_struct *parent, struct task_struct *child)
{
	__s32 from = parent->tgid, to = child->tgid;
	struct python_process *process = from == to ? NULL : bpf_map_lookup_elem(&python_processes, &from);

	if (process)
		bpf_map_update_elem(&python_processes, &to, process, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(python_exec, struct task_struct *task)
{
	__s32 pid = task->tgid;

	bpf_map_delete_elem(&python_processes, &pid);
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(python_forget, struct task_struct *task)
{
	__s32 pid = task->tgid;

	if (task->pid == pid)
		bpf_map_delete_elem(&python_processes, &pid);
	return 0;
}

#endif
