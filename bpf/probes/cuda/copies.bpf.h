/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Copies: reads structs that describe a copy, and finds the direction from the addresses if it is not given. */
#ifndef SCOPE_CUDA_COPIES_BPF_H
#define SCOPE_CUDA_COPIES_BPF_H

/* enum CUmemorytype, cuda.h; an array is on the device. */
enum copy_side { SIDE_UNKNOWN, SIDE_HOST, SIDE_DEVICE, SIDE_ARRAY, SIDE_UNIFIED };

/* One side of a copy, the same in CUDA_MEMCPY2D and CUDA_MEMCPY3D: cuda.h. */
struct copy_end {
	__u32 type;
	__u32 pad;
	__u64 host;
	__u64 device;
};

static __always_inline __u64 end_address(const struct copy_end *end)
{
	if (end->type == SIDE_HOST)
		return end->host;
	return end->type == SIDE_ARRAY ? 0 : end->device;
}

static __always_inline __u32 kind_between(__u32 from, __u32 to)
{
	if (from == SIDE_UNKNOWN || to == SIDE_UNKNOWN)
		return COPY_DEFAULT;
	return (from == SIDE_HOST ? 0 : 2) + (to == SIDE_HOST ? 0 : 1);
}

#define VM_READ 1 /* include/linux/mm.h */

/*
 * Memory is on the host if the program can read it and no device allocated it. Memory reserved by the driver is not
 * readable.
 */
static long note_host(struct task_struct *task, struct vm_area_struct *area, bool *is_host)
{
	struct file *file = area->vm_file;

	*is_host = area->vm_flags & VM_READ && (!file || (file->f_inode->i_mode & 0170000) == 0100000);
	return 0;
}

static __always_inline __u32 side_of_memory(__u32 memory)
{
	if (memory == CUDA_MANAGED)
		return SIDE_UNKNOWN; /* managed memory is where it was last used */
	return memory == CUDA_PINNED ? SIDE_HOST : SIDE_DEVICE;
}

static __always_inline __u32 side_of(struct task_struct *task, __u64 address)
{
	struct cuda_allocations_key key = {.start_ns = running_start_ns(), .address = address, .pid = task->tgid};
	struct cuda_allocation *allocation = bpf_map_lookup_elem(&cuda_allocations, &key);
	bool near_device = false, is_host = false;
	__u32 memory;

	if (allocation)
		return side_of_memory(allocation->memory);
	memory = memory_around(task, address, &near_device);
	if (memory)
		return side_of_memory(memory);
	if (near_device)
		return SIDE_UNKNOWN; /* memory of the host and of a device never share the same 2 MiB */
	bpf_find_vma(task, address, note_host, &is_host, 0);
	return is_host ? SIDE_HOST : SIDE_UNKNOWN;
}

static __always_inline __u32 side_of_end(struct task_struct *task, const struct copy_end *end)
{
	return end->type == SIDE_UNIFIED ? side_of(task, end->device) : end->type;
}

/* Converts the arguments to those of a plain copy: (dst, src, bytes, kind, stream). */
static __always_inline void read_copy(struct task_struct *task, struct cuda_frame *frame, bool is_3d)
{
	struct copy_end from = {}, to = {};
	__u64 extent[3] = {};
	void *copy = (void *)frame->args[0];

	frame->args[4] = frame->args[1];
	bpf_probe_read_user(&from, sizeof(from), copy + (is_3d ? 32 : 16));
	bpf_probe_read_user(&to, sizeof(to), copy + (is_3d ? 120 : 72));
	if (is_3d)
		bpf_probe_read_user(extent, sizeof(extent), copy + 176);
	else
		bpf_probe_read_user(extent, 2 * sizeof(extent[0]), copy + 112);
	frame->args[0] = end_address(&to);
	frame->args[1] = end_address(&from);
	frame->args[2] = extent[0] * extent[1] * (is_3d ? extent[2] : 1);
	frame->args[3] = kind_between(side_of_end(task, &from), side_of_end(task, &to));
}

static __always_inline __u32 copied_between(struct task_struct *task, __u32 kind, __u64 src, __u64 dst)
{
	return kind == COPY_DEFAULT ? kind_between(side_of(task, src), side_of(task, dst)) : kind;
}

#endif
