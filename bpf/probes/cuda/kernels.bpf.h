/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Launches: their geometry, and the handles of kernels. */
#ifndef SCOPE_CUDA_KERNELS_BPF_H
#define SCOPE_CUDA_KERNELS_BPF_H

SCOPE_STREAM(cuda_launch);

/*
 * A handle from the runtime or the driver, in one program of one process: another process has another start time, and
 * an exec'ed program has another stack. User space can read both for processes that were running before (proc(5),
 * stat).
 */
struct cuda_handle_key {
	__u64 start_stack;
	__u64 start_ticks; /* since boot, in units of USER_HZ */
	__u64 handle;
	__s32 pid;
	__u32 pad;
};

#define TICK_NS 10000000 /* USER_HZ is 100 on both architectures, include/asm-generic/param.h */

struct cuda_handle {
	struct scope_code code; /* inode 0 and offset not 0: the address of code that could not be looked up so far */
	__u32 name;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct cuda_handle_key);
	__type(value, struct cuda_handle);
} cuda_handles SEC(".maps");

struct cuda_names_key {
	__u64 start_ns;
	__s32 pid;
	__u32 number;
};

struct cuda_name {
	char text[CUDA_NAME];
};

/* Names by number. A number is used only once, so cached names stay right; deleted after their process has ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cuda_names_key);
	__type(value, struct cuda_name);
} cuda_names SEC(".maps");

static const struct cuda_name no_name;
__u32 cuda_last_name SEC(".data.names");

static __always_inline void fill_handle_key(struct cuda_handle_key *key, struct task_struct *task, __u64 handle)
{
	key->start_stack = untrusted(task)->mm->start_stack;
	key->start_ticks = running_start_ns() / TICK_NS;
	key->handle = handle;
	key->pid = task->tgid;
	key->pad = 0;
}

/* For cudaLaunchConfig_t and CUlaunchConfig: grid, block, shared bytes (of different widths), stream. */
static __always_inline void read_config(struct cuda_shape *shape, __u64 config)
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
		read_config(shape, args[0]);
	}
}

static __always_inline bool is_copy(__u8 kind)
{
	return kind >= CUDA_COPY && kind <= CUDA_COPY_3D;
}

static __always_inline bool is_launch(__u8 kind)
{
	return kind >= CUDA_LAUNCH && kind <= CUDA_DRIVER_LAUNCH_EX;
}

static __always_inline void keep_name(struct task_struct *task, struct cuda_handle *value, __u64 text)
{
	struct cuda_names_key key = {.start_ns = running_start_ns(),
				     .pid = task->tgid,
				     .number = __sync_fetch_and_add(&cuda_last_name, 1) + 1};
	struct cuda_name *name;
	long length;

	bpf_map_update_elem(&cuda_names, &key, &no_name, BPF_NOEXIST);
	name = bpf_map_lookup_elem(&cuda_names, &key);
	if (!name) {
		scope_count_incomplete(stream_cuda_launch);
		return;
	}
	length = read_user_string(name->text, sizeof(name->text), (void *)text);
	if (length > 0 && length < sizeof(name->text)) /* a cut name is not used */
		value->name = key.number;
}

/*
 * The handle is known after the call has returned. Names that the runtime itself asks the driver for are ignored: these
 * are thousands of registered kernels, whose names are found in another way.
 */
static __always_inline void learn_handle(struct task_struct *task, struct cuda_frame *frame, __u8 kind, __s32 result)
{
	struct cuda_handle_key key;
	struct cuda_handle value = {}, *kernel;
	__u64 handle = 0;

	if (result && kind != CUDA_GET_KERNEL) /* which returns a handle even without a GPU */
		return;
	if (bpf_probe_read_user(&handle, sizeof(handle), (void *)frame->args[0]) || !handle)
		return;
	if (kind == CUDA_GET_FUNCTION) {
		fill_handle_key(&key, task, frame->args[1]);
		kernel = bpf_map_lookup_elem(&cuda_handles, &key);
		if (!kernel)
			return;
		value = *kernel;
	}
	fill_handle_key(&key, task, handle);
	if (kind == CUDA_GET_KERNEL && find_code(task, frame->args[1], &value.code) == -EBUSY)
		value.code.offset = frame->args[1];
	else if (kind == CUDA_GET_NAMED)
		keep_name(task, &value, frame->args[2]);
	if (value.code.inode || value.code.offset || value.name)
		bpf_map_update_elem(&cuda_handles, &key, &value, BPF_ANY);
}

#endif
