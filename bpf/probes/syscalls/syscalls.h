/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_SYSCALLS_H
#define SCOPE_SYSCALLS_H

/* The header's time is the entry's. */
struct syscall_event {
	struct scope_header header;
	__s64 arg0;
	__s64 arg1;
	__s64 arg2;
	__s64 arg3;
	__s64 arg4;
	__s64 arg5;
	__s64 ret;
	__u64 duration_ns;
	__s32 nr;
	__u8 compat;   /* a 32-bit call on a 64-bit kernel: other numbers */
	__u8 returned; /* 0: the thread ended inside the call, as exit does */
	__u8 decoded;  /* its arguments are wanted as text, too */
	__u8 waited;   /* the thread gave up its CPU during the call */
};

/* Six arguments and the result have places; so has the directory that a path without one starts from. */
enum syscall_slot {
	SLOT_RESULT = 6,
	SLOT_CWD,
	SLOT_FIRST_OF_PAIR, /* what the two descriptors stand for that pipe and socketpair made */
	SLOT_SECOND_OF_PAIR,
	SLOTS,
};

/* What the bytes of a piece are. */
enum syscall_text {
	TEXT_STRING,  /* as the program gave it, without the NUL */
	TEXT_DATA,    /* the first bytes of a buffer */
	TEXT_ADDRESS, /* a sockaddr */
	TEXT_WORDS,   /* strings, each ended by a NUL */
	TEXT_PAIR,    /* two descriptors, __s32 */
	TEXT_FILE,    /* what a descriptor stands for: names from a file up to the root, each with a '/' ... */
	TEXT_UNNAMED, /* ... or what is in no directory: a struct syscall_unnamed, then a name ... */
	TEXT_SOCKET,  /* ... or a socket of the internet: a struct syscall_socket */
};

/*
 * The tail of an event, if anything was read, is a row of pieces: this, then its bytes. Of two pieces for one slot the
 * later counts. What could not be read has none.
 */
struct syscall_piece {
	__u8 slot;
	__u8 text;
	__u8 flags;
	__u8 pad;
	__u16 length;
};

#define PIECE_CUT 1	/* there was more; of a TEXT_FILE, directories nearer to the root */
#define PIECE_DELETED 2 /* the file is in its directory no more */

struct syscall_unnamed {
	__u64 inode;
	__u32 magic; /* of the file system, include/uapi/linux/magic.h */
	__u32 pad;
};

struct syscall_socket {
	__u64 inode;
	__u16 family;
	__u16 protocol;
	__u16 port;
	__u16 peer_port;
	__u8 address[16]; /* as in a packet */
	__u8 peer_address[16];
};

struct syscall_summary_key {
	struct scope_process process;
	__s32 nr;
	__u8 compat;
	__u8 waited; /* calls during which the thread gave up its CPU are counted apart */
	__u8 pad[2];
};

struct syscall_summary_value {
	__u64 count;
	__u64 errors;
	__u64 total_ns;
	struct scope_histogram latency;
};

#endif
