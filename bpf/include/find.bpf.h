/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the kernel's data about a file that user space has open as descriptor args[0]. The programs are never attached:
 * user space runs them and reads scope_found.
 */
#ifndef SCOPE_FIND_BPF_H
#define SCOPE_FIND_BPF_H

struct scope_found {
	__u64 inode; /* address of the inode */
	__u64 cgroup_id;
	__u32 cgroup_level; /* below the root of the hierarchy */
	__s32 pid;	    /* host pid (initial pid namespace) */
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
 * While user space has a file open, the address of its inode identifies the file. Device and number from stat do not:
 * the file system may choose them (in overlayfs and btrfs they differ from the inode's).
 */
SEC("raw_tp")
int scope_find_inode(struct bpf_raw_tracepoint_args *ctx)
{
	scope_found.inode = (__u64)inode_of_descriptor(ctx->args[0]);
	return 0;
}

/* For a directory of cgroup v2. Its path does not show its depth: in a cgroup namespace, the root has ancestors. */
SEC("raw_tp")
int scope_find_cgroup(struct bpf_raw_tracepoint_args *ctx)
{
	struct kernfs_node *node = BPF_CORE_READ(inode_of_descriptor(ctx->args[0]), i_private);
	struct cgroup *cgroup = BPF_CORE_READ(node, priv);

	scope_found.cgroup_id = BPF_CORE_READ(node, id);
	scope_found.cgroup_level = BPF_CORE_READ(cgroup, level);
	return 0;
}

/* For a directory /proc/PID, where PID is in the pid namespace of this /proc. */
SEC("raw_tp")
int scope_find_process(struct bpf_raw_tracepoint_args *ctx)
{
	struct inode *inode = inode_of_descriptor(ctx->args[0]);
	struct proc_inode *process = container_of(inode, struct proc_inode, vfs_inode);

	scope_found.pid = BPF_CORE_READ(process, pid, numbers[0].nr);
	return 0;
}

#endif
