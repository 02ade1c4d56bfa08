/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Data about the attached functions, and about a thread's open calls. */
#ifndef SCOPE_CUDA_FRAMES_BPF_H
#define SCOPE_CUDA_FRAMES_BPF_H

enum cuda_kind {
	CUDA_PLAIN,	       /* only time and result are recorded */
	CUDA_ALLOCATE,	       /* the pointer is known at the return */
	CUDA_FREE,	       /* frees the allocation at the pointer */
	CUDA_MAP,	       /* maps memory at an address chosen by the program */
	CUDA_UNMAP,	       /* unmaps everything in a range */
	CUDA_COPY,	       /* from src to dst */
	CUDA_COPY_2D,	       /* described by a CUDA_MEMCPY2D */
	CUDA_COPY_3D,	       /* described by a CUDA_MEMCPY3D */
	CUDA_RESET,	       /* ends the context of the thread's device, and all memory in it */
	CUDA_DESTROY_CONTEXT,  /* ends a context, and all memory in it */
	CUDA_SET_DEVICE,       /* the thread's device from then on */
	CUDA_LAUNCH,	       /* (function, grid, block, arguments, shared bytes, stream) */
	CUDA_LAUNCH_EX,	       /* (cudaLaunchConfig_t *, function, arguments) */
	CUDA_DRIVER_LAUNCH,    /* (function, grid x, y, z, block x, y, z, shared bytes, stream, arguments) */
	CUDA_DRIVER_LAUNCH_EX, /* (CUlaunchConfig *, function, arguments) */
	CUDA_GET_KERNEL,       /* (handle *, function): not called by programs; returns the handle of a function */
	CUDA_GET_NAMED,	       /* (handle *, module, name): returns the handle of a name */
	CUDA_GET_FUNCTION,     /* (handle *, kernel): returns another handle of a kernel */
	CUDA_MAKE_CONTEXT,     /* (context *, ...): returns the thread's new context */
	CUDA_SET_CONTEXT,      /* (context) */
	CUDA_POP_CONTEXT,      /* the thread gets another, unknown context */
};

enum copy_kind { COPY_H2H, COPY_H2D, COPY_D2H, COPY_D2D, COPY_DEFAULT }; /* enum cudaMemcpyKind, driver_types.h */

/* Special numbers of arguments. */
enum cuda_argument {
	CUDA_DEFAULT_STREAM = -2, /* no such argument; the call uses the default stream */
	CUDA_NO_ARGUMENT = -1,
};

/* A function: the numbers of its arguments; below 0: no such argument. */
struct cuda_place {
	enum cuda_kind kind;
	enum cuda_memory_kind memory; /* kind of memory that it allocates or frees */
	enum copy_kind copy_kind;     /* direction of all its copies, if there is no `copy` */
	enum cuda_argument stream;
	__u8 arguments; /* number of arguments to read */
	__s8 bytes;
	__s8 rows; /* multiplied by bytes */
	__s8 ptr;  /* the memory; for CUDA_ALLOCATE, where it is returned */
	__s8 src;
	__s8 dst;
	__s8 copy; /* enum copy_kind */
	__s8 device;
	__s8 pitch;  /* where it returns the real bytes per row */
	__u8 pooled; /* the memory belongs to no context and outlives it */
	__u8 pad[6];
};

#define CUDA_DEPTH 4   /* nested calls; a power of two */
#define CUDA_NAME 4096 /* names of templates within templates have thousands of characters */
#define CUDA_CACHED 8  /* latest kernels launched by a thread; a power of two */

const volatile bool keep_stacks;
const volatile bool only_device; /* the host has one device: an unselected device is 0 */

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
	struct cuda_allocation was; /* the allocation removed by a call that frees; time 0: none */
	__u8 nested;		    /* inside a recorded call */
	__u8 covers;		    /* calls inside this one are nested */
	__u8 pad[6];
};

struct cuda_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	__s32 device;
	__u8 has_device;
	__u8 pad[3];
	__u64 context; /* the driver's context; 0: unknown */
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

/* Notes the driver's context of a thread; a context made by the program may be on another device. */
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
