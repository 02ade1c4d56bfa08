/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of the functions that are attached, and kept of the calls of them that a thread is in. */
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

enum copy_kind { COPY_H2H, COPY_H2D, COPY_D2H, COPY_D2D, COPY_DEFAULT }; /* enum cudaMemcpyKind, driver_types.h */

/* What stands for the number of an argument where there is none. */
enum cuda_argument {
	CUDA_DEFAULT_STREAM = -2, /* but the call is the default stream's */
	CUDA_NO_ARGUMENT = -1,
};

/* A function: what its arguments are, by their numbers; below 0: it has no such. */
struct cuda_place {
	enum cuda_kind kind;
	enum cuda_memory_kind memory; /* of what it allocates or frees */
	enum copy_kind copy_kind;     /* what it always copies; else `copy` says */
	enum cuda_argument stream;
	__u8 arguments; /* that are read */
	__s8 bytes;
	__s8 rows; /* times bytes */
	__s8 ptr;  /* the memory itself; of CUDA_ALLOCATE, where it is returned */
	__s8 src;
	__s8 dst;
	__s8 copy; /* enum copy_kind */
	__s8 device;
	__s8 pitch;  /* where it returns how many bytes a row has got */
	__u8 pooled; /* what it allocates is no context's, and outlives it */
	__u8 pad[6];
};

#define CUDA_DEPTH 4   /* calls within calls; a power of two */
#define CUDA_NAME 4096 /* names of templates within templates have thousands of characters */
#define CUDA_CACHED 8  /* kernels that a thread has launched last; a power of two */

const volatile bool keep_stacks;
const volatile bool only_device; /* the host has one: whatever is not chosen, is 0 */

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
	struct scope_call call;
	__u64 args[CALL_ARGUMENTS];
	struct cuda_shape shape;
	__u64 call_stack;
	struct cuda_allocation was; /* what a call that frees took out; time 0: nothing */
	__u8 nested;		    /* inside a call that is recorded */
	__u8 covers;		    /* calls inside this one are nested */
	__u8 pad[6];
};

struct cuda_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	__s32 device;
	__u8 has_device;
	__u8 pad[3];
	__u64 context; /* the driver's, 0: not known */
	struct cuda_frame frames[CUDA_DEPTH];
	struct code_cache launched[CUDA_CACHED];
	struct stack_memory stacks;
};

SCOPE_PLACES(struct cuda_place);
SCOPE_THREADS(struct cuda_thread);

SCOPE_CALLS(struct cuda_thread, struct cuda_frame);

static __always_inline __u64 argument(const struct cuda_frame *frame, __s8 number)
{
	__u32 index = number;

	if (index >= CALL_ARGUMENTS)
		return 0;
	barrier_var(index);
	return frame->args[index & (CALL_ARGUMENTS - 1)];
}

/* In which context the driver works for a thread; a context of the program's own may be of another device. */
static __always_inline void learn_context(struct cuda_thread *thread, const struct cuda_frame *frame,
					  const struct cuda_place *function, __s32 result)
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

#endif
