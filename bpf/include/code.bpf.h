/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the file of a code address, from the running task's mappings. */
#ifndef SCOPE_CODE_BPF_H
#define SCOPE_CODE_BPF_H

/*
 * A place in code: the address of the file's inode, which identifies the file while it is in use, and the offset in it.
 */
struct scope_code {
	__u64 inode; /* 0: no file */
	__u64 offset;
};

const volatile __u32 scope_page_shift;

#define VM_EXEC 4 /* include/linux/mm.h */
#define EBUSY 16  /* include/uapi/asm-generic/errno-base.h */

struct code_search {
	__u64 address;
	struct scope_code code;
};

static long note_code(struct task_struct *task, struct vm_area_struct *area, struct code_search *search)
{
	struct file *file = area->vm_file;

	if (file && area->vm_flags & VM_EXEC) {
		search->code.inode = (__u64)file->f_inode;
		search->code.offset = search->address - area->vm_start + (area->vm_pgoff << scope_page_shift);
	}
	return 0;
}

/*
 * Finds the place of an address of the running task. Not cached, since another file may be mapped there later. Returns
 * -EBUSY while another thread changes the mappings.
 */
static __always_inline long find_code(struct task_struct *task, __u64 address, struct scope_code *code)
{
	struct code_search search = {.address = address};
	long result = bpf_find_vma(task, address, note_code, &search, 0);

	*code = search.code;
	return result;
}

/* The last result, for a thread with many lookups. */
struct code_cache {
	__u64 address;
	__u64 exec_id; /* identifies the executed program: exec changes all mappings */
	struct scope_code code;
	__u32 version; /* version of the mappings; odd: they are being changed */
	__u32 pad;
};

/* Like find_code, with a cache. Failed lookups are not cached. */
static __always_inline long find_code_again(struct task_struct *task, __u64 address, struct code_cache *cache,
					    struct scope_code *code)
{
	__u32 version = mappings_version(task);
	long error;

	if (version && !(version & 1) && cache->version == version && cache->address == address &&
	    cache->exec_id == task->self_exec_id) {
		*code = cache->code;
		return 0;
	}
	error = find_code(task, address, code);
	if (error)
		return error;
	cache->address = address;
	cache->exec_id = task->self_exec_id;
	cache->code = *code;
	cache->version = version;
	return 0;
}

struct scope_code scope_found_code SEC(".data.code");

/* Never attached: user space runs it to get the inode of its own mapping at args[0]. */
SEC("raw_tp")
int scope_find_code(struct bpf_raw_tracepoint_args *ctx)
{
	return find_code(bpf_get_current_task_btf(), ctx->args[0], &scope_found_code);
}

#endif
