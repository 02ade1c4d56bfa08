/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions that are attached, and the calls of them that a thread is in. */
#ifndef SCOPE_CUDA_FRAMES_BPF_H
#define SCOPE_CUDA_FRAMES_BPF_H

enum cuda_kind {
	CUDA_PLAIN,	       /* its time and result are all there is */
	CUDA_ALLOCATE,	       /* its pointer is known when it returns */
	CUDA_FREE,	       /* what was allocated at its pointer */
	CUDA_MAP,	       /* memory at an address that the program chose */
	CUDA_UNMAP,	       /* all that was mapped in a range */
	CUDA_COPY,	       /* from src to dst */
	CUDA_COPY_2D,	       /* likewise, as a CUDA_MEMCPY2D says */
	CUDA_COPY_3D,	       /* a CUDA_MEMCPY3D */
	CUDA_RESET,	       /* ends the context of the thread's device, and all memory in it */
	CUDA_DESTROY_CONTEXT,  /* likewise a context */
	CUDA_SET_DEVICE,       /* the thread's device from then on */
	CUDA_LAUNCH,	       /* (function, grid, block, arguments, shared bytes, stream) */
	CUDA_LAUNCH_EX,	       /* (cudaLaunchConfig_t *, function, arguments) */
	CUDA_DRIVER_LAUNCH,    /* (function, grid x, y, z, block x, y, z, shared bytes, stream, arguments) */
	CUDA_DRIVER_LAUNCH_EX, /* (CUlaunchConfig *, function, arguments) */
	CUDA_GET_KERNEL,       /* (handle *, function): no call of the program's; tells the handle of a function */
	CUDA_GET_NAMED,	       /* (handle *, module, name): likewise, of a name */
	CUDA_GET_FUNCTION,     /* (handle *, kernel): likewise, of what another handle stands for */
	CUDA_MAKE_CONTEXT,     /* (context *, ...): likewise; the thread's context from then on */
	CUDA_SET_CONTEXT,      /* (context) */
	CUDA_POP_CONTEXT,      /* the thread has another one, and it is not known which */
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
	__s8 pitch;  /* where it returns how many bytes a row has got */
	__u8 pooled; /* what it allocates is no context's, and outlives it */
	__u8 pad[2];
};

#define CUDA_DEFAULT_STREAM -2 /* for `stream`: it has no such argument, and is the default stream's */

#define CUDA_FUNCTIONS 128
#define CUDA_DEPTH 4   /* calls within calls */
#define CUDA_NAME 4096 /* names of templates within templates have thousands of characters */
#define CUDA_CACHED 8  /* kernels that a thread has launched last; a power of two */

const volatile bool keep_stacks;
const volatile bool only_device; /* the host has one: whatever is not chosen, is 0 */
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
	struct cuda_allocation was; /* what a call that frees took out; time 0: nothing */
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
	__u64 context; /* the driver's, 0: not known */
	struct cuda_frame frames[CUDA_DEPTH];
	struct code_cache launched[CUDA_CACHED];
	struct stack_memory stacks;
};

SCOPE_THREADS(struct cuda_thread);

static __always_inline const volatile struct cuda_function *function_numbered(__u32 number)
{
	if (number >= CUDA_FUNCTIONS)
		return NULL;
	barrier_var(number); /* or the compiler adds before it checks */
	return &cuda_functions[number & (CUDA_FUNCTIONS - 1)];
}

/* Which function the program was attached to, by the number in the cookie. */
static __always_inline const volatile struct cuda_function *attached_function(void *ctx, __u32 *number)
{
	*number = bpf_get_attach_cookie(ctx);
	return function_numbered(*number);
}

static __always_inline __u64 argument(const struct cuda_frame *frame, __s8 number)
{
	__u32 index = number;

	if (index >= CALL_ARGUMENTS)
		return 0;
	barrier_var(index);
	return frame->args[index & (CALL_ARGUMENTS - 1)];
}

static __always_inline struct cuda_frame *top_frame(struct cuda_thread *thread)
{
	__u32 top = thread->depth - 1;

	if (top >= CUDA_DEPTH)
		return NULL;
	barrier_var(top);
	return &thread->frames[top & (CUDA_DEPTH - 1)];
}

/* In which context the driver works for a thread; a context of the program's own may be of another device. */
static __always_inline void learn_context(struct cuda_thread *thread, const struct cuda_frame *frame,
					  const volatile struct cuda_function *function, __s32 result)
{
	__u64 context = function->kind == CUDA_SET_CONTEXT ? frame->args[0] : 0;

	if (result)
		return;
	if (function->kind == CUDA_MAKE_CONTEXT)
		bpf_probe_read_user(&context, sizeof(context), (void *)frame->args[0]);
	thread->context = context;
	if (frame->nested)
		return;
	thread->has_device = function->device >= 0;
	thread->device = argument(frame, function->device);
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

#endif
