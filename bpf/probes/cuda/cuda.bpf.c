/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "call.bpf.h"
#include "stack.bpf.h"

#include "cuda.h"

#include "memory.bpf.h"

SCOPE_STREAM(cuda_call);
SCOPE_STREAM(cuda_launch);
SCOPE_SUMMARY(cuda_call_summary)
SCOPE_SUMMARY(cuda_launch_summary)

enum cuda_kind {
	CUDA_PLAIN,	       /* its time and result are all there is */
	CUDA_ALLOCATE,	       /* its pointer is known when it returns */
	CUDA_FREE,	       /* what was allocated at its pointer */
	CUDA_MAP,	       /* memory at an address that the program chose */
	CUDA_UNMAP,	       /* all that was mapped in a range */
	CUDA_COPY,	       /* from src to dst */
	CUDA_SET_DEVICE,       /* the thread's device from then on */
	CUDA_LAUNCH,	       /* (function, grid, block, arguments, shared bytes, stream) */
	CUDA_LAUNCH_EX,	       /* (cudaLaunchConfig_t *, function, arguments) */
	CUDA_DRIVER_LAUNCH,    /* (function, grid x, y, z, block x, y, z, shared bytes, stream, arguments) */
	CUDA_DRIVER_LAUNCH_EX, /* (CUlaunchConfig *, function, arguments) */
	CUDA_GET_KERNEL,       /* (handle *, function): no call of the program's; tells the handle of a function */
	CUDA_GET_NAMED,	       /* (handle *, module, name): likewise, of a name */
};

/* A function that user space attaches: what its arguments are, by their numbers; -1: it has no such. */
struct cuda_function {
	__u8 kind;
	__u8 arguments;
	__s8 bytes;
	__s8 rows; /* times bytes */
	__s8 ptr;  /* the memory itself; of CUDA_ALLOCATE, where it is returned */
	__s8 src;
	__s8 dst;
	__s8 copy;	/* enum cudaMemcpyKind ... */
	__u8 copy_kind; /* ... or what it always is */
	__s8 stream;
	__s8 device;
	__u8 memory; /* enum cuda_memory_kind: of what it allocates or frees */
	__u8 pad[4];
};

#define CUDA_FUNCTIONS 128
#define CUDA_DEPTH 4 /* calls within calls */
#define CUDA_NAME 1024
#define CUDA_CACHED 8 /* kernels and stacks that a thread has had last; a power of two */

const volatile bool keep_stacks;
const volatile struct cuda_function cuda_functions[CUDA_FUNCTIONS];

struct cuda_shape {
	__u64 handle;
	__u64 arguments;
	__u64 stream;
	__u32 grid[3];
	__u32 block[3];
	__u32 shared_bytes;
	__u32 pad;
};

struct cuda_frame {
	__u64 entered_ns;
	__u64 stack; /* where the stack will be when it returns: tells calls apart, whatever was left without a return
		      */
	__u64 args[CALL_ARGUMENTS];
	struct cuda_shape shape;
	__u64 call_stack;
	struct cuda_allocation was; /* what a call that frees took out; bytes 0: nothing */
	__u32 function;
	__u8 nested; /* inside a call that is recorded */
	__u8 covers; /* calls inside this one are nested */
	__u8 pad[2];
};

struct cuda_thread {
	struct scope_thread thread;
	__u32 depth;
	__s32 device;
	__u8 has_device;
	__u8 pad[7];
	struct cuda_frame frames[CUDA_DEPTH];
	struct code_cache launched[CUDA_CACHED];
	__u64 stacks[CUDA_CACHED];     /* numbers of stacks that were kept */
	__u64 addresses[STACK_FRAMES]; /* of the stack that is being walked */
};

SCOPE_THREADS(struct cuda_thread);

/*
 * A handle that the runtime or the driver gave out, as long as the program that got it is the same: another process has
 * another start, what is exec'ed has another stack. User space knows both of processes that ran before (proc(5), stat).
 */
struct cuda_handle_key {
	__u64 start_stack;
	__u64 start_ticks; /* of USER_HZ, since boot */
	__u64 handle;
	__s32 pid;
	__u32 pad;
};

#define TICK_NS 10000000 /* USER_HZ is 100 on both architectures, include/asm-generic/param.h */

struct cuda_handle {
	struct scope_code code;
	__u32 name;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct cuda_handle_key);
	__type(value, struct cuda_handle);
} cuda_handles SEC(".maps");

struct cuda_name {
	char text[CUDA_NAME];
};

/* Names by number. A number is given once, so that what was read of it stays right. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct cuda_name);
} cuda_names SEC(".maps");

static const struct cuda_name no_name;
__u32 cuda_last_name SEC(".data.names");

static __always_inline void fill_handle_key(struct cuda_handle_key *key, struct task_struct *task, __u64 handle)
{
	key->start_stack = task->mm->start_stack;
	key->start_ticks = task_start_ns(task) / TICK_NS;
	key->handle = handle;
	key->pid = task->tgid;
	key->pad = 0;
}

/* Which function the program was attached to, by the number in the cookie. */
static __always_inline const volatile struct cuda_function *attached_function(void *ctx, __u32 *number)
{
	__u32 cookie = bpf_get_attach_cookie(ctx);

	*number = cookie;
	if (cookie >= CUDA_FUNCTIONS)
		return NULL;
	barrier_var(cookie); /* or the compiler adds before it checks */
	return &cuda_functions[cookie & (CUDA_FUNCTIONS - 1)];
}

static __always_inline __u64 argument(const struct cuda_frame *frame, __s8 number)
{
	__u32 index = number;

	if (index >= CALL_ARGUMENTS)
		return 0;
	barrier_var(index);
	return frame->args[index & (CALL_ARGUMENTS - 1)];
}

/* cudaLaunchConfig_t and CUlaunchConfig alike: grid and block from the begin, then what differs in width. */
static __always_inline void read_config(struct cuda_shape *shape, __u64 config, bool driver)
{
	bpf_probe_read_user(shape->grid, sizeof(shape->grid), (void *)config);
	bpf_probe_read_user(shape->block, sizeof(shape->block), (void *)config + 12);
	bpf_probe_read_user(&shape->shared_bytes, sizeof(shape->shared_bytes), (void *)config + 24);
	bpf_probe_read_user(&shape->stream, sizeof(shape->stream), (void *)config + 32);
}

static __always_inline void read_shape(struct cuda_frame *frame, __u8 kind)
{
	struct cuda_shape *shape = &frame->shape;
	const __u64 *args = frame->args;

	switch (kind) {
	case CUDA_LAUNCH:
		shape->handle = args[0];
		shape->grid[0] = args[1];
		shape->grid[1] = args[1] >> 32;
		shape->grid[2] = args[2];
		shape->block[0] = args[3];
		shape->block[1] = args[3] >> 32;
		shape->block[2] = args[4];
		shape->arguments = args[5];
		shape->shared_bytes = args[6];
		shape->stream = args[7];
		break;
	case CUDA_DRIVER_LAUNCH:
		shape->handle = args[0];
		shape->grid[0] = args[1];
		shape->grid[1] = args[2];
		shape->grid[2] = args[3];
		shape->block[0] = args[4];
		shape->block[1] = args[5];
		shape->block[2] = args[6];
		shape->shared_bytes = args[7];
		shape->stream = args[8];
		shape->arguments = args[9];
		break;
	default:
		shape->handle = args[1];
		shape->arguments = args[2];
		read_config(shape, args[0], kind == CUDA_DRIVER_LAUNCH_EX);
	}
}

static __always_inline bool is_launch(__u8 kind)
{
	return kind >= CUDA_LAUNCH && kind <= CUDA_DRIVER_LAUNCH_EX;
}

static __always_inline struct cuda_frame *top_frame(struct cuda_thread *thread)
{
	__u32 top = thread->depth - 1;

	if (top >= CUDA_DEPTH)
		return NULL;
	barrier_var(top);
	return &thread->frames[top & (CUDA_DEPTH - 1)];
}

/* Calls that an exception or longjmp() left lie below the stack of the one that is entered or left now. */
static __always_inline struct cuda_frame *drop_left_frames(struct cuda_thread *thread, __u64 stack)
{
	struct cuda_frame *frame = top_frame(thread);

	for (int i = 0; i < CUDA_DEPTH && frame && frame->stack < stack; i++) {
		thread->depth--;
		frame = top_frame(thread);
	}
	return frame;
}

static __always_inline struct cuda_place place_of(struct cuda_thread *thread,
						  const volatile struct cuda_function *function)
{
	struct cuda_place place = {.device = thread->has_device ? thread->device : -1, .memory = function->memory};

	return place;
}

static __always_inline __u64 bytes_of(const struct cuda_frame *frame, const volatile struct cuda_function *function)
{
	__u64 bytes = argument(frame, function->bytes);

	return function->rows >= 0 ? bytes * argument(frame, function->rows) : bytes;
}

/*
 * Memory is taken out before the call frees it: once it is free, another thread may get it. cudaFree(NULL) is how
 * programs start the runtime: nothing is freed.
 */
static __always_inline void release_memory(struct task_struct *task, struct cuda_thread *thread,
					   struct cuda_frame *frame, const volatile struct cuda_function *function)
{
	struct cuda_place place = place_of(thread, function);
	__u64 address = argument(frame, function->ptr);

	frame->was.bytes = 0;
	if (function->kind == CUDA_UNMAP)
		unmapped(task, &place, address, bytes_of(frame, function));
	else if (function->kind == CUDA_FREE && address && !forget_allocation(task, address, &frame->was))
		count_unknown_free(task, &place);
}

/* Nested calls are the same memory once more; what could not be freed is there still. */
static __always_inline void account_memory(struct task_struct *task, struct cuda_thread *thread,
					   struct cuda_frame *frame, const volatile struct cuda_function *function,
					   __s32 result)
{
	struct cuda_place place = place_of(thread, function);
	__u64 address = argument(frame, function->ptr);

	if (function->kind == CUDA_FREE && result && frame->was.bytes) {
		place = (struct cuda_place){.device = frame->was.device, .memory = frame->was.memory};
		allocated(task, &place, address, frame->was.bytes, frame->was.stack);
	}
	if (function->kind == CUDA_ALLOCATE && !result) {
		bpf_probe_read_user(&address, sizeof(address), (void *)address);
		allocated(task, &place, address, bytes_of(frame, function), frame->call_stack);
	}
	if (function->kind == CUDA_MAP && !result)
		allocated(task, &place, address, bytes_of(frame, function), frame->call_stack);
}

/*
 * Attached at the first instruction of each function, or behind its endbr64. Uprobes see every call, from whatever
 * library; they miss a runtime that is linked statically and stripped, whose functions have no names.
 */
SEC("uprobe")
int cuda_enter(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const volatile struct cuda_function *function;
	struct cuda_thread *thread;
	struct cuda_frame *outer, *frame;
	struct user_frame entry;
	__u32 number;
	bool nested;

	function = attached_function(ctx, &number);
	if (!function)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		if (scope_passes(task))
			scope_count_loss(stream_cuda_call, SCOPE_LOST_NO_STATE);
		return 0;
	}
	if (!scope_thread_passes(task, &thread->thread))
		return 0;
	outer = drop_left_frames(thread, return_stack(ctx));
	nested = outer && outer->covers;
	thread->depth++;
	frame = top_frame(thread);
	if (!frame) {
		thread->depth--;
		scope_count_loss(stream_cuda_call, SCOPE_LOST_NO_STATE);
		return 0;
	}
	frame->function = number;
	frame->nested = nested;
	frame->covers = nested || function->kind < CUDA_GET_KERNEL;
	frame->stack = return_stack(ctx);
	read_entry(ctx, &entry, frame->args, function->arguments);
	if (is_launch(function->kind))
		read_shape(frame, function->kind);
	frame->call_stack = 0;
	if (keep_stacks && !nested &&
	    (is_launch(function->kind) || function->kind == CUDA_ALLOCATE || function->kind == CUDA_MAP))
		frame->call_stack = keep_stack(task, &entry, thread->addresses, thread->stacks, CUDA_CACHED);
	if (!nested)
		release_memory(task, thread, frame, function);
	frame->entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

static __always_inline void keep_name(struct cuda_handle *value, __u64 text)
{
	__u32 number = __sync_fetch_and_add(&cuda_last_name, 1) + 1;
	struct cuda_name *name;

	bpf_map_update_elem(&cuda_names, &number, &no_name, BPF_NOEXIST);
	name = bpf_map_lookup_elem(&cuda_names, &number);
	if (name && bpf_probe_read_user_str(name->text, sizeof(name->text), (void *)text) > 0)
		value->name = number;
}

/* The handle is known once the call has returned. */
static __always_inline void learn_handle(struct task_struct *task, struct cuda_frame *frame, __u8 kind)
{
	struct cuda_handle_key key;
	struct cuda_handle value = {};
	__u64 handle = 0;

	if (bpf_probe_read_user(&handle, sizeof(handle), (void *)frame->args[0]) || !handle)
		return;
	fill_handle_key(&key, task, handle);
	if (kind == CUDA_GET_KERNEL)
		find_code(task, frame->args[1], &value.code);
	else
		keep_name(&value, frame->args[2]);
	bpf_map_update_elem(&cuda_handles, &key, &value, BPF_ANY);
}

static __always_inline void summarize_launch(struct task_struct *task, const struct cuda_frame *frame,
					     const struct scope_code *code, __u32 name, __u64 duration_ns, __s32 result)
{
	struct cuda_launch_summary_key key = {.inode = code->inode,
					      .offset = code->offset,
					      .name = name,
					      .function_id = frame->function,
					      .nested = frame->nested};
	struct cuda_launch_summary_value *value;

	if (!code->inode && !name)
		key.handle = frame->shape.handle;
	fill_process(&key.process, task);
	value = cuda_launch_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	if (result)
		__sync_fetch_and_add(&value->errors, 1);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->latency, duration_ns);
}

static __always_inline void emit_launch(struct task_struct *task, struct cuda_thread *thread, struct cuda_frame *frame,
					__u64 duration_ns, __s32 result)
{
	struct cuda_shape *shape = &frame->shape;
	struct cuda_launch_event *event;
	struct cuda_handle_key key;
	struct cuda_handle *known;
	struct scope_code code = {};
	__u32 name = 0;

	find_code_again(task, shape->handle, &thread->launched[(shape->handle >> 4) & (CUDA_CACHED - 1)], &code);
	if (!code.inode) {
		fill_handle_key(&key, task, shape->handle);
		known = bpf_map_lookup_elem(&cuda_handles, &key);
		if (known) {
			code = known->code;
			name = known->name;
		}
	}
	if (scope_summarize) {
		summarize_launch(task, frame, &code, name, duration_ns, result);
		return;
	}
	event = scope_reserve(task, stream_cuda_launch, frame->entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->handle = shape->handle;
	event->inode = code.inode;
	event->offset = code.offset;
	event->arguments = shape->arguments;
	event->stream = shape->stream;
	event->stack_id = frame->call_stack;
	event->name = name;
	event->grid_x = shape->grid[0];
	event->grid_y = shape->grid[1];
	event->grid_z = shape->grid[2];
	event->block_x = shape->block[0];
	event->block_y = shape->block[1];
	event->block_z = shape->block[2];
	event->shared_bytes = shape->shared_bytes;
	event->result = result;
	event->device = thread->device;
	event->function_id = frame->function;
	event->nested = frame->nested;
	event->has_device = thread->has_device;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_cuda_launch, sizeof(*event));
}

static __always_inline void summarize_call(struct task_struct *task, const struct cuda_frame *frame,
					   const volatile struct cuda_function *function, __u64 duration_ns,
					   __s32 result)
{
	struct cuda_call_summary_key key = {.function_id = frame->function, .nested = frame->nested};
	struct cuda_call_summary_value *value;

	fill_process(&key.process, task);
	value = cuda_call_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	if (result)
		__sync_fetch_and_add(&value->errors, 1);
	else
		__sync_fetch_and_add(&value->bytes,
				     function->kind == CUDA_FREE ? frame->was.bytes : bytes_of(frame, function));
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->latency, duration_ns);
}

static __always_inline void emit_call(struct task_struct *task, struct cuda_thread *thread, struct cuda_frame *frame,
				      const volatile struct cuda_function *function, __u64 duration_ns, __s32 result)
{
	struct cuda_call_event *event;

	if (scope_summarize) {
		summarize_call(task, frame, function, duration_ns, result);
		return;
	}
	event = scope_reserve(task, stream_cuda_call, frame->entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->bytes = function->kind == CUDA_FREE ? frame->was.bytes : bytes_of(frame, function);
	event->ptr = argument(frame, function->ptr);
	event->has_ptr = function->ptr >= 0;
	if (function->kind == CUDA_ALLOCATE) {
		__u64 made = 0;

		bpf_probe_read_user(&made, sizeof(made), (void *)event->ptr);
		event->ptr = made;
		event->has_ptr = result == 0;
	}
	event->src = argument(frame, function->src);
	event->dst = argument(frame, function->dst);
	event->stream = argument(frame, function->stream);
	event->stack_id = frame->call_stack;
	event->result = result;
	event->device = thread->device;
	event->function_id = frame->function;
	event->nested = frame->nested;
	event->copy_kind = function->copy >= 0 ? argument(frame, function->copy) : function->copy_kind;
	event->has_bytes = function->bytes >= 0 || event->bytes;
	event->has_src = function->src >= 0;
	event->has_dst = function->dst >= 0;
	event->has_stream = function->stream >= 0;
	event->has_device = thread->has_device;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_cuda_call, sizeof(*event));
}

SEC("uretprobe")
int cuda_return(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cuda_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	const volatile struct cuda_function *function;
	__s32 result = PT_REGS_RC(ctx);
	struct cuda_frame *frame;
	__u64 duration_ns;
	__u32 number;

	function = attached_function(ctx, &number);
	if (!thread || !function)
		return 0;
	frame = drop_left_frames(thread, PT_REGS_SP(ctx));
	if (!frame || frame->stack != PT_REGS_SP(ctx) || frame->function != number)
		return 0;
	duration_ns = bpf_ktime_get_boot_ns() - frame->entered_ns;
	thread->depth--;
	if (function->kind == CUDA_SET_DEVICE && result == 0) {
		thread->device = frame->args[0];
		thread->has_device = 1;
	}
	if (!frame->nested)
		account_memory(task, thread, frame, function, result);
	if (function->kind == CUDA_GET_KERNEL || function->kind == CUDA_GET_NAMED)
		learn_handle(task, frame, function->kind);
	else if (is_launch(function->kind))
		emit_launch(task, thread, frame, duration_ns, result);
	else
		emit_call(task, thread, frame, function, duration_ns, result);
	return 0;
}
