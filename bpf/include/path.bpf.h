/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Absolute paths in the process's mount namespace. The programs walk the directories themselves, because bpf_d_path()
 * is allowed only in a few hooks. The walk goes from the leaf up; so directories are written leaf first (struct
 * scope_path), and user space reverses them.
 */
#ifndef SCOPE_PATH_BPF_H
#define SCOPE_PATH_BPF_H

#define PATH_DEPTH 64	/* directories and mounts on the way to the root */
#define PATH_BYTES 4096 /* PATH_MAX; for the directories, and again for the name */
#define NAME_BYTES 256	/* NAME_MAX and the NUL */

#define S_IFMT 0170000 /* include/uapi/linux/stat.h */
#define S_IFSOCK 0140000
#define AT_FDCWD -100
#define RESOLVE_IN_ROOT 0x10 /* include/uapi/linux/openat2.h */

struct path_buffer {
	char bytes[2 * PATH_BYTES + NAME_BYTES];
	__u32 end; /* of the written bytes; in memory, so that the verifier checks the loop only once */
};

/* Appends the name of a directory and a '/'. Returns false if the buffer is full or the name is unreadable. */
static __always_inline bool write_directory(struct path_buffer *buffer, struct dentry *dentry)
{
	__u32 end = buffer->end;
	long length;

	if (end > PATH_BYTES - NAME_BYTES)
		return false;
	length = bpf_probe_read_kernel_str(buffer->bytes + end, NAME_BYTES, BPF_CORE_READ(dentry, d_name.name));
	if (length <= 0 || length > NAME_BYTES)
		return false;
	end += length;
	if (!end || end > PATH_BYTES)
		return false;
	buffer->bytes[end - 1] = '/';
	buffer->end = end;
	return true;
}

/* Pipes, sockets, memfds and so on are in no directory. */
static __always_inline bool has_path(const struct path *path)
{
	struct dentry *dentry = BPF_CORE_READ(path, dentry);

	return dentry != BPF_CORE_READ(dentry, d_parent) || dentry == BPF_CORE_READ(path, mnt, mnt_root);
}

/* Writes the directories of a path, leaf first, and a NUL. Returns the size; *cut: some are missing. */
static __always_inline __u32 write_directories(struct path_buffer *buffer, const struct path *path, bool *cut)
{
	struct dentry *dentry = BPF_CORE_READ(path, dentry);
	struct vfsmount *vfsmount = BPF_CORE_READ(path, mnt);
	struct mount *mount = container_of(vfsmount, struct mount, mnt);
	__u32 end;
	int depth;

	buffer->end = 0;
	*cut = true;
	for (depth = 0; depth < PATH_DEPTH; depth++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		struct mount *above = BPF_CORE_READ(mount, mnt_parent);

		if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
			if (above == mount) {
				*cut = false;
				break;
			}
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = above;
			continue;
		}
		if (dentry == parent) {
			*cut = false;
			break;
		}
		if (!write_directory(buffer, dentry))
			break;
		dentry = parent;
	}
	end = buffer->end;
	if (end > PATH_BYTES)
		end = PATH_BYTES;
	buffer->bytes[end] = '\0';
	return end + 1;
}

/* The file behind a task's descriptor; NULL: there is no such descriptor. */
static __always_inline struct file *file_of_fd(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;

	if (fd < 0 || (__u32)fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

static __always_inline const struct path *directory_of_fd(struct task_struct *task, __s32 fd)
{
	struct file *file = file_of_fd(task, fd);

	return file ? &file->f_path : NULL;
}

static __always_inline long read_name(void *to, __u32 most, const char *name, bool of_user)
{
	return of_user ? read_user_string(to, most, name) : bpf_probe_read_kernel_str(to, most, name);
}

/*
 * Writes the absolute path of `name`, in memory of the user or the kernel, for a call with this dfd: directories, a
 * NUL, the name. "." and ".." are not resolved: because of symbolic links, only the kernel could. Returns the size; 0:
 * unreadable.
 */
static __always_inline __u32 write_absolute_path(struct path_buffer *buffer, struct task_struct *task, __s32 dfd,
						 const char *name, bool of_user, bool in_root, bool *cut)
{
	struct fs_struct *fs = BPF_CORE_READ(task, fs);
	const struct path *base = &fs->pwd;
	__u32 end = 1;
	char first[2] = {};
	long length;

	if (read_name(first, sizeof(first), name, of_user) <= 0)
		return 0;
	if (first[0] == '/' && !in_root)
		base = &fs->root;
	else if (dfd != AT_FDCWD)
		base = directory_of_fd(task, dfd);
	if (!base || !has_path(base))
		return 0; /* no such descriptor, or not a directory: the call fails, so there is no path */
	end = write_directories(buffer, base, cut);
	if (end > PATH_BYTES + 1)
		return 0;
	length = read_name(buffer->bytes + end, PATH_BYTES, name, of_user);
	return length > 0 ? end + length - 1 : 0;
}

#endif
