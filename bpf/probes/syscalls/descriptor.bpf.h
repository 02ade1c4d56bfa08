/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a descriptor stands for, as a piece of text: the absolute path of its file, or what tells pipes, sockets and
 * their kind apart. Unlike write_directories(), which leaves the turning round to user space, the path is written
 * from its end to its beginning at the end of the buffer, and then moved: it may be told of every call.
 */
#ifndef SCOPE_SYSCALLS_DESCRIPTOR_BPF_H
#define SCOPE_SYSCALLS_DESCRIPTOR_BPF_H

#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define AF_INET 2
#define AF_INET6 10

#define PATH_END (TAIL_BYTES - NAME_BYTES) /* of a path that is being written, which grows towards ... */
#define PATH_LOWEST (PIECES_BYTES + 64)	   /* ... the pieces; between them is room for what prepend_short() spills */

/* Is a member of a struct where it has always been? Kernels with CONFIG_RANDSTRUCT have it anywhere. */
#define lies_behind(pointer, first, member, bytes)                                                                     \
	(bpf_core_field_offset((pointer)->member) == bpf_core_field_offset((pointer)->first) + (bytes))

static __always_inline void read_dentry(struct dentry_link *link, struct dentry *dentry)
{
	if (lies_behind(dentry, d_hash, d_parent, 16) && lies_behind(dentry, d_hash, d_name, 24)) {
		bpf_core_read(link, sizeof(*link), &dentry->d_hash);
		return;
	}
	bpf_core_read(&link->d_hash, sizeof(link->d_hash), &dentry->d_hash);
	bpf_core_read(&link->d_parent, sizeof(link->d_parent), &dentry->d_parent);
	bpf_core_read(&link->d_name, sizeof(link->d_name), &dentry->d_name);
}

static __always_inline void read_mount(struct mount_link *link, struct mount *mount)
{
	if (lies_behind(mount, mnt_parent, mnt_mountpoint, 8) && lies_behind(mount, mnt_parent, mnt.mnt_root, 16)) {
		bpf_core_read(link, sizeof(*link), &mount->mnt_parent);
		return;
	}
	bpf_core_read(&link->mnt_parent, sizeof(link->mnt_parent), &mount->mnt_parent);
	bpf_core_read(&link->mnt_mountpoint, sizeof(link->mnt_mountpoint), &mount->mnt_mountpoint);
	bpf_core_read(&link->mnt_root, sizeof(link->mnt_root), &mount->mnt.mnt_root);
}

/* Is the name within the dentry, and so has been read with it? */
static __always_inline bool is_short(const struct dentry_link *link, struct dentry *dentry)
{
	return lies_behind(dentry, d_hash, d_parent, 16) && lies_behind(dentry, d_hash, d_name, 24) &&
	       (__u64)link->d_name.name == (__u64)dentry + bpf_core_field_offset(dentry->d_hash) +
						   offsetof(struct dentry_link, short_name) &&
	       link->d_name.len <= SHORT_NAME_BYTES;
}

/*
 * Copies a name in words, the last ones first, without a call. The first of them may spill over the beginning, where
 * nothing is yet.
 */
static __always_inline void prepend_short(struct reading *reading, __u32 at, __u32 length)
{
	char *to, *from;

	asm volatile("%0 &= 63" : "+r"(length)); /* what it is anyway, said to the verifier */
	to = reading->tail + at + length;
	from = reading->link.short_name + length;

#pragma unroll
	for (int word = 1; word <= SHORT_NAME_BYTES / 8; word++)
		if (length > 8 * (word - 1))
			*(__u64 *)(to - 8 * word) = *(__u64 *)(from - 8 * word);
}

/* Writes '/' and a dentry's name before what is written. False: there is no room. */
static __always_inline bool prepend_name(struct reading *reading, struct dentry *dentry)
{
	__u32 at = reading->path, length = reading->link.d_name.len;

	if (length >= NAME_BYTES)
		return false;
	at -= length + 1;
	barrier_var(at); /* or compilers make one comparison of the two, or compute it again: verifiers see neither
			    through */
	if (at < PATH_LOWEST)
		return false;
	barrier_var(at);
	if (at > PATH_END)
		return false;
	if (is_short(&reading->link, dentry) && length <= SHORT_NAME_BYTES)
		prepend_short(reading, at + 1, length);
	else
		bpf_probe_read_kernel(reading->tail + at + 1, length, reading->link.d_name.name);
	reading->tail[at] = '/';
	reading->path = at;
	return true;
}

/* Writes a path from its end on, down from PATH_END. Returns whether its beginning is there, too. */
static __always_inline bool prepend_path(struct reading *reading, struct dentry *dentry, struct mount_link *mount)
{
	int depth;

	reading->path = PATH_END;
	for (depth = 0; depth < PATH_DEPTH; depth++) {
		if (dentry == mount->mnt_root) {
			struct mount *above = mount->mnt_parent;

			dentry = mount->mnt_mountpoint;
			read_mount(mount, above);
			if (above == mount->mnt_parent && dentry == mount->mnt_root)
				return true;
		} else if (dentry == reading->link.d_parent) {
			return true;
		} else {
			if (!prepend_name(reading, dentry))
				return false;
			dentry = reading->link.d_parent;
		}
		read_dentry(&reading->link, dentry);
	}
	return false;
}

static __always_inline int write_file(struct reading *reading, __u32 slot, struct dentry *dentry,
				      struct mount_link *mount)
{
	__u8 flags = reading->link.d_hash.pprev || dentry == reading->link.d_parent ? 0 : PIECE_DELETED;
	bool whole = prepend_path(reading, dentry, mount);
	__u32 from = reading->path, length;
	char *to;

	if (!whole)
		flags |= PIECE_CUT;
	if (whole && from == PATH_END) { /* the root itself */
		from--;
		reading->tail[PATH_END - 1] = '/';
	}
	barrier_var(from);
	if (from < PATH_LOWEST)
		return 0;
	barrier_var(from);
	if (from > PATH_END)
		return 0;
	length = PATH_END - from;
	to = begin_piece(reading, slot, TEXT_FILE);
	if (!to || bpf_probe_read_kernel(to, length, reading->tail + from))
		return 0;
	end_piece(reading, length, flags);
	return 0;
}

static __always_inline int write_unnamed(struct reading *reading, __u32 slot, struct inode *inode)
{
	struct syscall_unnamed *unnamed = begin_piece(reading, slot, TEXT_UNNAMED);
	__u32 length = reading->link.d_name.len & (NAME_BYTES - 1);

	if (!unnamed)
		return 0;
	unnamed->inode = BPF_CORE_READ(inode, i_ino);
	unnamed->magic = BPF_CORE_READ(inode, i_sb, s_magic);
	unnamed->pad = 0;
	bpf_probe_read_kernel(unnamed + 1, length, reading->link.d_name.name);
	end_piece(reading, sizeof(*unnamed) + length, 0);
	return 0;
}

/* False: it is none of the internet. */
static __always_inline bool write_socket(struct reading *reading, __u32 slot, struct inode *inode)
{
	struct socket_alloc *alloc = container_of(inode, struct socket_alloc, vfs_inode);
	struct sock *sock = BPF_CORE_READ(alloc, socket.sk);
	__u16 family = BPF_CORE_READ(sock, __sk_common.skc_family);
	struct syscall_socket *socket;

	if (!sock || (family != AF_INET && family != AF_INET6))
		return false;
	socket = begin_piece(reading, slot, TEXT_SOCKET);
	if (!socket)
		return true;
	__builtin_memset(socket, 0, sizeof(*socket));
	socket->inode = BPF_CORE_READ(inode, i_ino);
	socket->family = family;
	socket->protocol = BPF_CORE_READ(sock, sk_protocol);
	socket->peer_port = bpf_ntohs(BPF_CORE_READ(sock, __sk_common.skc_dport));
	if (socket->peer_port || BPF_CORE_READ(sock, __sk_common.skc_num)) /* else it has given its port back */
		socket->port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sock, inet_sport));
	if (family == AF_INET) {
		bpf_core_read(socket->address, 4, &sock->__sk_common.skc_rcv_saddr);
		bpf_core_read(socket->peer_address, 4, &sock->__sk_common.skc_daddr);
	} else {
		bpf_core_read(socket->address, 16, &sock->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(socket->peer_address, 16, &sock->__sk_common.skc_v6_daddr);
	}
	end_piece(reading, sizeof(*socket), 0);
	return true;
}

/* The file's place, in one read. False: there is no such descriptor. */
static __always_inline bool read_path(struct path *path, __s32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file **files, *file = NULL;
	struct fdtable *table;

	if (fd == AT_FDCWD) {
		path->dentry = task->fs->pwd.dentry;
		path->mnt = task->fs->pwd.mnt;
		return true;
	}
	table = task->files->fdt;
	if ((__u32)fd >= table->max_fds)
		return false;
	files = table->fd;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file && !bpf_core_read(path, sizeof(*path), &file->f_path);
}

/* By itself, for the verifier: it is called for each argument, for the working directory and for the result. */
__noinline int write_descriptor(struct reading *reading, __u32 slot, __s32 fd)
{
	struct mount_link mount = {};
	struct path path = {};
	struct inode *inode;

	if (!reading || !read_path(&path, fd))
		return 0;
	if (reading->end > PIECES_BYTES) { /* what is there would be written over */
		reading->left_out = 1;
		return 0;
	}
	read_dentry(&reading->link, path.dentry);
	read_mount(&mount, container_of(path.mnt, struct mount, mnt));
	if (path.dentry != reading->link.d_parent || path.dentry == mount.mnt_root)
		return write_file(reading, slot, path.dentry, &mount);
	inode = BPF_CORE_READ(path.dentry, d_inode);
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFSOCK && write_socket(reading, slot, inode))
		return 0;
	return write_unnamed(reading, slot, inode);
}

#endif
