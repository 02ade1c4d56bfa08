/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an operation of io_uring does, and to which names: in a request that is prepared, or in its entry. */
#ifndef SCOPE_FILES_NAMES_BPF_H
#define SCOPE_FILES_NAMES_BPF_H

#define IORING_FSYNC_DATASYNC 1 /* include/uapi/linux/io_uring.h */

struct op_names {
	__u64 name;
	__u64 second; /* the new name or target */
	__s32 fd;
	__s32 new_fd;
};

/* Since 7.0, the kernel holds a name so until the request runs. */
struct delayed_filename___since_7_0 {
	struct filename *__incomplete_filename;
} __attribute__((preserve_access_index));

#define HOLDS_ONE_NAME(type)                                                                                           \
	struct type##___since_7_0 {                                                                                    \
		struct delayed_filename___since_7_0 filename;                                                          \
	} __attribute__((preserve_access_index))

#define HOLDS_TWO_NAMES(type)                                                                                          \
	struct type##___since_7_0 {                                                                                    \
		struct delayed_filename___since_7_0 oldpath;                                                           \
		struct delayed_filename___since_7_0 newpath;                                                           \
	} __attribute__((preserve_access_index))

HOLDS_ONE_NAME(io_open);
HOLDS_ONE_NAME(io_statx);
HOLDS_ONE_NAME(io_unlink);
HOLDS_ONE_NAME(io_mkdir);
HOLDS_TWO_NAMES(io_rename);
HOLDS_TWO_NAMES(io_link);

/* A name, in the kernel's memory, of a prepared request. */
#define PREPARED_NAME(request, type, member)                                                                           \
	({                                                                                                             \
		struct type *_given = (void *)(request);                                                               \
		struct type##___since_7_0 *_newer = (void *)(request);                                                 \
		struct filename *_name = bpf_core_field_exists(_given->member)                                         \
						 ? BPF_CORE_READ(_given, member)                                       \
						 : BPF_CORE_READ(_newer, member.__incomplete_filename);                \
		BPF_CORE_READ(_name, name);                                                                            \
	})

static __always_inline enum file_op_kind op_of(__u8 code, __u32 flags)
{
	switch (code) {
	case IORING_OP_STATX:
		return FILE_STAT;
	case IORING_OP_UNLINKAT:
		return flags & AT_REMOVEDIR ? FILE_RMDIR : FILE_UNLINK;
	case IORING_OP_MKDIRAT:
		return FILE_MKDIR;
	case IORING_OP_RENAMEAT:
		return FILE_RENAME;
	case IORING_OP_LINKAT:
		return FILE_LINK;
	case IORING_OP_SYMLINKAT:
		return FILE_SYMLINK;
	case IORING_OP_FTRUNCATE:
		return FILE_TRUNCATE;
	case IORING_OP_SYNC_FILE_RANGE:
		return FILE_SYNC_FILE_RANGE;
	default:
		return flags & IORING_FSYNC_DATASYNC ? FILE_FDATASYNC : FILE_FSYNC;
	}
}

static __always_inline enum file_op_kind read_prepared(struct io_kiocb *request, struct op_names *names)
{
	struct io_rename *rename = (void *)request;
	struct io_unlink *unlink = (void *)request;
	struct io_statx *statx = (void *)request;
	struct io_mkdir *mkdir = (void *)request;
	struct io_link *link = (void *)request;
	struct io_sync *sync = (void *)request;
	__u8 code = BPF_CORE_READ(request, opcode);
	__u32 flags = 0;

	switch (code) {
	case IORING_OP_STATX:
		names->fd = BPF_CORE_READ(statx, dfd);
		names->name = (__u64)PREPARED_NAME(request, io_statx, filename);
		break;
	case IORING_OP_UNLINKAT:
		flags = BPF_CORE_READ(unlink, flags);
		names->fd = BPF_CORE_READ(unlink, dfd);
		names->name = (__u64)PREPARED_NAME(request, io_unlink, filename);
		break;
	case IORING_OP_MKDIRAT:
		names->fd = BPF_CORE_READ(mkdir, dfd);
		names->name = (__u64)PREPARED_NAME(request, io_mkdir, filename);
		break;
	case IORING_OP_RENAMEAT:
		names->fd = BPF_CORE_READ(rename, old_dfd);
		names->name = (__u64)PREPARED_NAME(request, io_rename, oldpath);
		names->new_fd = BPF_CORE_READ(rename, new_dfd);
		names->second = (__u64)PREPARED_NAME(request, io_rename, newpath);
		break;
	case IORING_OP_LINKAT:
		names->fd = BPF_CORE_READ(link, old_dfd);
		names->name = (__u64)PREPARED_NAME(request, io_link, oldpath);
		names->new_fd = BPF_CORE_READ(link, new_dfd);
		names->second = (__u64)PREPARED_NAME(request, io_link, newpath);
		break;
	case IORING_OP_SYMLINKAT:
		names->fd = BPF_CORE_READ(link, new_dfd);
		names->name = (__u64)PREPARED_NAME(request, io_link, newpath);
		names->second = (__u64)PREPARED_NAME(request, io_link, oldpath);
		break;
	case IORING_OP_FSYNC:
		flags = BPF_CORE_READ(sync, flags);
		break;
	}
	return op_of(code, flags);
}

/* The same in user memory, of a request that could not be prepared. */
static __always_inline enum file_op_kind read_entry(const struct io_uring_sqe *entry, struct op_names *names)
{
	__u8 code = BPF_CORE_READ(entry, opcode);
	bool is_symlink = code == IORING_OP_SYMLINKAT;

	names->fd = BPF_CORE_READ(entry, fd);
	names->name = is_symlink ? BPF_CORE_READ(entry, addr2) : BPF_CORE_READ(entry, addr);
	names->new_fd = BPF_CORE_READ(entry, len);
	names->second = is_symlink ? BPF_CORE_READ(entry, addr) : BPF_CORE_READ(entry, addr2);
	return op_of(code, BPF_CORE_READ(entry, unlink_flags)); /* at the same place as fsync_flags */
}

#endif
