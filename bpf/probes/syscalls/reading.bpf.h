/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What registers only point to or stand for, read while the call is there: at its entry what the program gives, which
 * it may change later; at its exit what the kernel gives, and again what was not in memory at the entry (programs may
 * not fault; the call itself has brought it in). Pieces are kept with the thread until the event takes them along.
 */
#ifndef SCOPE_SYSCALLS_READING_BPF_H
#define SCOPE_SYSCALLS_READING_BPF_H

#include <bpf/bpf_endian.h>

#include "path.bpf.h"

#define READ_AT_EXIT 0x10 /* a bit of what is only there at the exit */

/* How an argument is read, given at load by number of call; the last two columns are the result's and 0. */
enum syscall_read {
	READ_NOT,
	READ_DESCRIPTOR, /* what it stands for */
	READ_DIRECTORY,	 /* the same, and AT_FDCWD is one */
	READ_PATH,	 /* a string, and the working directory if it is relative and no directory is given */
	READ_TEXT,	 /* a string: a path that does without */
	READ_STRING,	 /* a string, its beginning */
	READ_WORDS,	 /* an array of strings */
	READ_DATA,	 /* a buffer whose size is the next argument */
	READ_ADDRESS,	 /* the same of a sockaddr */
	READ_FILLED = READ_AT_EXIT, /* a buffer that the call has filled with as many bytes as it returns */
	READ_FILLED_TEXT,	    /* a string that the call has made */
	READ_FILLED_ADDRESS,	    /* a sockaddr whose size the next argument points to */
	READ_PAIR,		    /* two descriptors that the call has made */
	READ_REPLACED,		    /* the result: success puts another program in the place of the one that called */
};

SCOPE_SHARED(enum, syscall_read);
SCOPE_SHARED(enum, syscall_text);
SCOPE_SHARED(enum, syscall_slot);
SCOPE_SHARED(struct, syscall_piece);
SCOPE_SHARED(struct, syscall_unnamed);
SCOPE_SHARED(struct, syscall_socket);

#define READINGS 8
#define MOST_DATA_BYTES 1024
#define MOST_ADDRESS_BYTES 128 /* sizeof(struct sockaddr_storage) */
#define MOST_STRING_BYTES 256
#define MOST_WORDS 32
#define MOST_WORD_BYTES 1024
#define ARGUMENTS 6

const volatile bool reads; /* anything */
const volatile __u8 readings[SYSCALLS][READINGS] __attribute__((aligned(8)));
const volatile __u32 data_bytes; /* of each buffer */

/* A thread's event is made here: task storage has values of less than two pages on some kernels. */
#define PIECES_BYTES 3072 /* the last piece begins before this */
#define TAIL_BYTES (PIECES_BYTES + PATH_BYTES + NAME_BYTES)

#define SHORT_NAME_BYTES 24

/* The members of a struct dentry and of a struct mount that a walk needs, as they lie there: to be read at once. */
struct dentry_link {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	char short_name[SHORT_NAME_BYTES]; /* the beginning of d_iname */
};

struct mount_link {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct dentry *mnt_root;
};

struct reading {
	struct syscall_event event;
	char tail[TAIL_BYTES];	 /* goes with the event */
	struct dentry_link link; /* of the directory that a walk is at */
	__u32 end;	/* of the pieces; in memory, like the next, so that the verifier sees one way through a loop */
	__u32 path;	/* where a path ends that is being written */
	__u32 unread;	/* a bit for each argument that could not be read at the entry */
	__u32 left_out; /* there was no room */
	__u32 ready;	/* the call that it is about is under way */
};

SCOPE_THREAD_STATE(reading_threads, struct reading);

/* Where the bytes of a piece go, PATH_BYTES + NAME_BYTES at most; NULL: no room. */
static __always_inline void *begin_piece(struct reading *reading, __u32 slot, enum syscall_text text)
{
	__u32 at = reading->end;

	if (at > PIECES_BYTES) {
		reading->left_out = 1;
		return NULL;
	}
	reading->tail[at] = slot;
	reading->tail[at + 1] = text;
	return reading->tail + at + sizeof(struct syscall_piece);
}

static __always_inline void end_piece(struct reading *reading, __u32 length, __u8 flags)
{
	__u32 at = reading->end;

	if (at > PIECES_BYTES)
		return;
	reading->tail[at + 2] = flags;
	reading->tail[at + 3] = 0;
	reading->tail[at + 4] = length;
	reading->tail[at + 5] = length >> 8;
	reading->end = at + sizeof(struct syscall_piece) + length;
}

#include "descriptor.bpf.h"

/*
 * These are functions of their own for the verifier, which looks at each once. They return whether what is there could
 * be read; what has no room is not read, which is counted.
 */
__noinline int write_string(struct reading *reading, __u32 slot, __u64 from, __u32 most)
{
	long length;
	char *to;

	if (!reading || most > PATH_BYTES)
		return true;
	to = begin_piece(reading, slot, TEXT_STRING);
	if (!to)
		return true;
	length = read_user_string(to, most, (void *)from);
	if (length <= 0)
		return false;
	end_piece(reading, length - 1, length == most ? PIECE_CUT : 0);
	return true;
}

__noinline int write_data(struct reading *reading, __u32 slot, __u64 from, __u64 size)
{
	__u64 length = size > data_bytes ? data_bytes : size;
	char *to;

	if (!reading || length > MOST_DATA_BYTES)
		return true;
	to = begin_piece(reading, slot, TEXT_DATA);
	if (!to)
		return true;
	if (bpf_probe_read_user(to, length, (void *)from))
		return false;
	end_piece(reading, length, size > data_bytes ? PIECE_CUT : 0);
	return true;
}

__noinline int write_address(struct reading *reading, __u32 slot, __u64 from, __u32 size)
{
	__u32 length = size > MOST_ADDRESS_BYTES ? MOST_ADDRESS_BYTES : size;
	char *to;

	if (!reading)
		return true;
	to = begin_piece(reading, slot, TEXT_ADDRESS);
	if (!to)
		return true;
	if (bpf_probe_read_user(to, length, (void *)from))
		return false;
	end_piece(reading, length, 0);
	return true;
}

/* The bytes of as many strings as there is room for, each with its NUL. */
__noinline int write_words(struct reading *reading, __u32 slot, __u64 from)
{
	__u32 begin, at, i;
	__u8 flags = PIECE_CUT;

	if (!reading || !begin_piece(reading, slot, TEXT_WORDS))
		return true;
	begin = at = reading->end + sizeof(struct syscall_piece);
	for (i = 0; i < MOST_WORDS && at <= PIECES_BYTES; i++) {
		const char *word = NULL;
		long length;

		if (bpf_probe_read_user(&word, sizeof(word), (const char **)from + i))
			return false;
		if (!word) {
			flags = 0;
			break;
		}
		length = read_user_string(reading->tail + at, MOST_WORD_BYTES, word);
		if (length <= 0)
			return false;
		at += length;
	}
	end_piece(reading, at - begin, flags);
	return true;
}

static __always_inline void write_pair(struct reading *reading, __u32 slot, __s32 first, __s32 second)
{
	__s32 *pair = begin_piece(reading, slot, TEXT_PAIR);

	if (!pair)
		return;
	pair[0] = first;
	pair[1] = second;
	end_piece(reading, 2 * sizeof(*pair), 0);
	write_descriptor(reading, SLOT_FIRST_OF_PAIR, first);
	write_descriptor(reading, SLOT_SECOND_OF_PAIR, second);
}

static __always_inline bool write_path(struct reading *reading, __u32 slot, __u64 from, bool at_directory)
{
	__u32 begin = reading->end;

	if (!write_string(reading, slot, from, PATH_BYTES))
		return false;
	barrier_var(begin); /* older verifiers forget what was found of a copy */
	if (at_directory || begin > PIECES_BYTES)
		return true;
	if (reading->tail[begin + sizeof(struct syscall_piece)] != '/')
		write_descriptor(reading, SLOT_CWD, AT_FDCWD);
	return true;
}

static __always_inline bool read_given(struct reading *reading, __u32 slot, __u8 how, __u64 value, __u64 next)
{
	switch (how) {
	case READ_DESCRIPTOR:
		if ((__s32)value >= 0)
			write_descriptor(reading, slot, value);
		return true;
	case READ_DIRECTORY:
		write_descriptor(reading, slot, value);
		return true;
	case READ_PATH:
	case READ_TEXT:
		return !value || write_path(reading, slot, value, how == READ_TEXT);
	case READ_STRING:
		return !value || write_string(reading, slot, value, MOST_STRING_BYTES);
	case READ_WORDS:
		return !value || write_words(reading, slot, value);
	case READ_DATA:
		return !value || write_data(reading, slot, value, next);
	case READ_ADDRESS:
		return !value || write_address(reading, slot, value, next);
	}
	return true;
}

static __always_inline void read_filled(struct reading *reading, __u32 slot, __u8 how, __u64 value, __u64 next,
					__s64 ret)
{
	__s32 numbers[2] = {};

	if (!value || ret < 0)
		return;
	switch (how) {
	case READ_FILLED:
		write_data(reading, slot, value, (__u64)ret < next ? ret : next);
		break;
	case READ_FILLED_TEXT:
		write_string(reading, slot, value, PATH_BYTES);
		break;
	case READ_FILLED_ADDRESS:
		if (next && !bpf_probe_read_user(numbers, sizeof(numbers[0]), (void *)next))
			write_address(reading, slot, value, numbers[0]);
		break;
	case READ_PAIR:
		if (bpf_probe_read_user(numbers, sizeof(numbers), (void *)value))
			break;
		write_pair(reading, slot, numbers[0], numbers[1]);
		break;
	}
}

/* Is anything of this call to be read? */
static __always_inline bool is_read(const struct syscall_thread *call)
{
	__u32 nr = call->nr;

	if (nr >= SYSCALLS || call->compat)
		return false;
	barrier_var(nr); /* older verifiers forget what was found of a copy */
	return *(const volatile __u64 *)readings[nr & (SYSCALLS - 1)];
}

static __always_inline __u64 next_argument(const struct syscall_thread *call, __u32 i)
{
	return i + 1 < ARGUMENTS ? call->args[i + 1] : 0;
}

/* Is anything to be read at the exit of this call? */
static __always_inline bool is_read_at_exit(const struct reading *reading, const struct syscall_thread *call)
{
	__u64 at_exit = READ_AT_EXIT * 0x010101010101ull | 0xffull << 8 * SLOT_RESULT;

	return reading->unread || (*(const volatile __u64 *)readings[call->nr & (SYSCALLS - 1)] & at_exit);
}

/* What the arguments of a call tell at its entry. */
__noinline int read_at_entry(struct syscall_thread *call)
{
	struct reading *reading;
	__u32 nr, i;
	__u64 kinds;

	if (!call)
		return 0;
	nr = call->nr;
	if (nr >= SYSCALLS)
		return 0;
	reading = bpf_task_storage_get(&reading_threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!reading)
		return 0;
	reading->end = reading->unread = reading->left_out = 0;
	kinds = *(const volatile __u64 *)readings[nr];
	for (i = 0; i < ARGUMENTS && kinds; i++, kinds >>= 8)
		if (!read_given(reading, i, kinds, call->args[i], next_argument(call, i)))
			reading->unread |= 1 << i;
	reading->ready = 1;
	return 0;
}

/* What is there at the exit only. An exec that succeeds has replaced what its arguments point to. */
__noinline int read_at_exit(struct reading *reading, struct syscall_thread *call, __s64 ret)
{
	__u32 nr, i;
	__u8 result;

	if (!reading || !call)
		return 0;
	nr = call->nr;
	if (nr >= SYSCALLS)
		return 0;
	result = readings[nr][SLOT_RESULT];
	for (i = 0; i < ARGUMENTS; i++) {
		__u8 how = readings[nr][i];
		__u64 value = call->args[i], next = next_argument(call, i);

		if (how & READ_AT_EXIT)
			read_filled(reading, i, how, value, next, ret);
		else if (reading->unread >> i & 1 && (result != READ_REPLACED || ret < 0))
			read_given(reading, i, how, value, next);
	}
	if (result == READ_DESCRIPTOR && ret >= 0)
		write_descriptor(reading, SLOT_RESULT, ret);
	return 0;
}

#endif
