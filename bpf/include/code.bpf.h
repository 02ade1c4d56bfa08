/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which file an address of code lies in, by the running task's mappings. */
#ifndef SCOPE_CODE_BPF_H
#define SCOPE_CODE_BPF_H

/*
 * Where code lies: the inode by its address, which is the file's name while somebody holds it, and the offset in it.
 */
struct scope_code {
	__u64 inode; /* 0: not in a file */
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
 * Where an address of the running task lies. Asked anew each time: what is unmapped and mapped again may be another
 * file. Returns -EBUSY while another thread changes the mappings.
 */
static __always_inline long find_code(struct task_struct *task, __u64 address, struct scope_code *code)
{
	struct code_search search = {.address = address};
	long result = bpf_find_vma(task, address, note_code, &search, 0);

	*code = search.code;
	return result;
}

/* What was found last, for a thread that asks again and again. */
struct code_cache {
	__u64 address;
	__u64 exec_id; /* which program the thread runs: exec gives it other mappings */
	struct scope_code code;
	__u32 version; /* of the mappings; odd: they are being changed */
	__u32 pad;
};

/* The same by way of a cache. What could not be looked up is not kept. */
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

/* Never attached: user space runs it to learn which inode it has mapped at args[0]. */
SEC("raw_tp")
int scope_find_code(struct bpf_raw_tracepoint_args *ctx)
{
	return find_code(bpf_get_current_task_btf(), ctx->args[0], &scope_found_code);
}

#endif
