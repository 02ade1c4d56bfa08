/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a descriptor stands for, as a piece of text: the absolute path of its file, or what tells pipes, sockets and
 * their kind apart. The walk goes from the file up; so names are written file first, and user space reverses them.
 * It may be done for every call: names are copied without a call of a helper where that is possible.
 */
#ifndef SCOPE_SYSCALLS_DESCRIPTOR_BPF_H
#define SCOPE_SYSCALLS_DESCRIPTOR_BPF_H

#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define AF_INET 2
#define AF_INET6 10

/* Is a member of a struct where it has always been? Kernels with CONFIG_RANDSTRUCT have it anywhere. */
#define lies_behind(pointer, first, member, bytes)                                                                     \
	(bpf_core_field_offset((pointer)->member) == bpf_core_field_offset((pointer)->first) + (bytes))

static __always_inline void read_dentry(struct dentry_link *link, struct dentry *dentry)
{
	if (lies_behind(dentry, d_hash, d_parent, 16) && lies_behind(dentry, d_hash, d_name, 24)) {
		read_words(link, (void *)dentry + bpf_core_field_offset(dentry->d_hash), sizeof(*link));
		return;
	}
	bpf_core_read(&link->d_hash, sizeof(link->d_hash), &dentry->d_hash);
	bpf_core_read(&link->d_parent, sizeof(link->d_parent), &dentry->d_parent);
	bpf_core_read(&link->d_name, sizeof(link->d_name), &dentry->d_name);
}

static __always_inline void read_mount(struct mount_link *link, struct mount *mount)
{
	if (lies_behind(mount, mnt_parent, mnt_mountpoint, 8) && lies_behind(mount, mnt_parent, mnt.mnt_root, 16)) {
		read_words(link, (void *)mount + bpf_core_field_offset(mount->mnt_parent), sizeof(*link));
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

/* Copies a short name in words. The last word may spill over the end of the name: nothing is there yet. */
static __always_inline void append_short(struct reading *reading, __u32 at, __u32 length)
{
	char *to = reading->tail + at, *from = reading->link.short_name;

#pragma unroll
	for (int begin = 0; begin < SHORT_NAME_BYTES; begin += 8)
		if (length > begin)
			*(__u64 *)(to + begin) = *(__u64 *)(from + begin);
}

/* Appends a dentry's name and a '/'. False: there is no room. */
static __always_inline bool append_name(struct reading *reading, struct dentry *dentry)
{
	__u32 at = reading->path, length = reading->link.d_name.len;

	if (length >= NAME_BYTES || at > TAIL_BYTES - NAME_BYTES)
		return false;
	if (is_short(&reading->link, dentry))
		append_short(reading, at, length);
	else
		bpf_probe_read_kernel(reading->tail + at, length, reading->link.d_name.name);
	reading->tail[at + length] = '/';
	reading->path = at + length + 1;
	return true;
}

/* Appends the names from a file up to the root. Returns whether all of them were written. */
static __always_inline bool append_path(struct reading *reading, struct dentry *dentry, struct mount_link *mount)
{
	int depth;

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
			if (!append_name(reading, dentry))
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

	if (!begin_piece(reading, slot, TEXT_FILE))
		return 0;
	reading->path = reading->end + sizeof(struct syscall_piece);
	if (!append_path(reading, dentry, mount))
		flags |= PIECE_CUT;
	end_piece(reading, reading->path - reading->end - sizeof(struct syscall_piece), flags);
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
		path->dentry = untrusted(task)->fs->pwd.dentry;
		path->mnt = untrusted(task)->fs->pwd.mnt;
		return true;
	}
	table = untrusted(task)->files->fdt;
	if ((__u32)fd >= table->max_fds)
		return false;
	files = table->fd;
	read_words(&file, files + fd, sizeof(file));
	return file && read_words(path, (void *)file + bpf_core_field_offset(file->f_path), sizeof(*path));
}

/* By itself, for the verifier: it is called for each argument, for the working directory and for the result. */
__noinline int write_descriptor(struct reading *reading, __u32 slot, __s32 fd)
{
	struct mount_link mount = {};
	struct path path = {};
	struct inode *inode;

	if (!reading || !read_path(&path, fd))
		return 0;
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
