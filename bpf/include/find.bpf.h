/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel knows of files that user space holds open as the descriptor args[0]. The programs are never attached:
 * user space runs them, and reads scope_found.
 */
#ifndef SCOPE_FIND_BPF_H
#define SCOPE_FIND_BPF_H

struct scope_found {
	__u64 inode; /* its address */
	__u64 cgroup_id;
	__u32 cgroup_level; /* below the root of the hierarchy */
	__s32 pid;	    /* in the initial pid namespace */
};

struct scope_found scope_found SEC(".data.found");

static __always_inline struct inode *inode_of_descriptor(__u64 fd)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct file **files = BPF_CORE_READ(task, files, fdt, fd), *file = NULL;

	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return BPF_CORE_READ(file, f_inode);
}

/*
 * While user space holds a file, its inode's address is its one true name: what stat says of it, device and number, is
 * what a file system chooses to say (overlayfs and btrfs: not what the inode has).
 */
SEC("raw_tp")
int scope_find_inode(struct bpf_raw_tracepoint_args *ctx)
{
	scope_found.inode = (__u64)inode_of_descriptor(ctx->args[0]);
	return 0;
}

/* Of a directory of cgroup v2. How deep it lies its path does not tell: below a private root there is more above. */
SEC("raw_tp")
int scope_find_cgroup(struct bpf_raw_tracepoint_args *ctx)
{
	struct kernfs_node *node = BPF_CORE_READ(inode_of_descriptor(ctx->args[0]), i_private);
	struct cgroup *cgroup = BPF_CORE_READ(node, priv);

	scope_found.cgroup_id = BPF_CORE_READ(node, id);
	scope_found.cgroup_level = BPF_CORE_READ(cgroup, level);
	return 0;
}

/* Of a directory /proc/PID, which names a process as the pid namespace does that this /proc is of. */
SEC("raw_tp")
int scope_find_process(struct bpf_raw_tracepoint_args *ctx)
{
	struct inode *inode = inode_of_descriptor(ctx->args[0]);
	struct proc_inode *process = container_of(inode, struct proc_inode, vfs_inode);

	scope_found.pid = BPF_CORE_READ(process, pid, numbers[0].nr);
	return 0;
}

#endif
