/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that may connect a TCP socket, of 64 and 32 bits: which socket, and where to. */
#ifndef SCOPE_NET_CALLS_TO_CONNECT_BPF_H
#define SCOPE_NET_CALLS_TO_CONNECT_BPF_H

#define MSG_FASTOPEN 0x20000000 /* include/linux/socket.h */

#if defined(__TARGET_ARCH_x86)
enum { CALL_CONNECT = 42, CALL_SENDTO = 44, CALL_SENDMSG = 46, CALL_SENDMMSG = 307 };
enum { CALL_CONNECT_32 = 362, CALL_SENDTO_32 = 369, CALL_SENDMSG_32 = 370, CALL_SENDMMSG_32 = 345 };
#else
enum { CALL_CONNECT = 203, CALL_SENDTO = 206, CALL_SENDMSG = 211, CALL_SENDMMSG = 269 };
enum { CALL_CONNECT_32 = 283, CALL_SENDTO_32 = 290, CALL_SENDMSG_32 = 296, CALL_SENDMMSG_32 = 374 };
#endif

/* A 32-bit call with two arguments: one of these numbers, and the address of that call's arguments. */
#define CALL_SOCKETCALL_32 102
/* include/uapi/linux/net.h */
enum { SOCKETCALL_CONNECT = 3, SOCKETCALL_SENDTO = 11, SOCKETCALL_SENDMSG = 16, SOCKETCALL_SENDMMSG = 20 };

enum net_call_kind { NET_OTHER, NET_CONNECT, NET_SENDTO, NET_SENDMSG, NET_SENDMMSG };

struct net_call {
	__u64 remote; /* address in user memory */
	__u32 remote_bytes;
	__s32 fd;
};

static __always_inline bool may_connect(long nr, bool compat)
{
	if (compat)
		return nr == CALL_CONNECT_32 || nr == CALL_SENDTO_32 || nr == CALL_SENDMSG_32 ||
		       nr == CALL_SENDMMSG_32 || nr == CALL_SOCKETCALL_32;
	return nr == CALL_CONNECT || nr == CALL_SENDTO || nr == CALL_SENDMSG || nr == CALL_SENDMMSG;
}

/* The same of both tables of calls: asked first, since to ask for the task costs all other calls as much again. */
static __always_inline bool may_connect_somehow(long nr)
{
	return may_connect(nr, false) || may_connect(nr, true);
}

/* Reads where to a struct msghdr goes, or the first one of struct mmsghdrs: if it fails, no other is sent. */
static __always_inline void read_message(struct net_call *call, __u64 address, bool compat)
{
	__u32 narrow[2] = {};
	__u64 wide[2] = {};

	if (compat)
		bpf_probe_read_user(narrow, sizeof(narrow), (void *)address);
	else
		bpf_probe_read_user(wide, sizeof(wide), (void *)address);
	call->remote = compat ? narrow[0] : wide[0];
	call->remote_bytes = compat ? narrow[1] : wide[1];
}

/* Reads the arguments of a call. False: it connects nothing. */
static __always_inline bool read_args(struct net_call *call, const __u64 *args, enum net_call_kind kind, bool compat)
{
	call->fd = args[0];
	switch (kind) {
	case NET_CONNECT:
		call->remote = args[1];
		call->remote_bytes = args[2];
		return true;
	case NET_SENDTO:
		call->remote = args[4];
		call->remote_bytes = args[5];
		return args[3] & MSG_FASTOPEN;
	case NET_SENDMSG:
		if (!(args[2] & MSG_FASTOPEN))
			return false;
		read_message(call, args[1], compat);
		return true;
	case NET_SENDMMSG:
		if (!(args[3] & MSG_FASTOPEN))
			return false;
		read_message(call, args[1], compat);
		return true;
	default:
		return false;
	}
}

static __always_inline enum net_call_kind kind_of_socketcall(__u32 number)
{
	return number == SOCKETCALL_CONNECT    ? NET_CONNECT
	       : number == SOCKETCALL_SENDTO   ? NET_SENDTO
	       : number == SOCKETCALL_SENDMSG  ? NET_SENDMSG
	       : number == SOCKETCALL_SENDMMSG ? NET_SENDMMSG
					       : NET_OTHER;
}

static __always_inline bool read_socketcall(struct net_call *call, struct pt_regs *regs)
{
	__u32 words[6] = {};
	__u64 args[6];

	bpf_probe_read_user(words, sizeof(words), (void *)call_arg(regs, 1, true));
	for (int i = 0; i < 6; i++)
		args[i] = words[i];
	return read_args(call, args, kind_of_socketcall(call_arg(regs, 0, true)), true);
}

static __always_inline enum net_call_kind kind_of_call(long nr, bool compat)
{
	if (nr == (compat ? CALL_CONNECT_32 : CALL_CONNECT))
		return NET_CONNECT;
	if (nr == (compat ? CALL_SENDTO_32 : CALL_SENDTO))
		return NET_SENDTO;
	return nr == (compat ? CALL_SENDMSG_32 : CALL_SENDMSG) ? NET_SENDMSG : NET_SENDMMSG;
}

static __always_inline bool read_call(struct net_call *call, struct pt_regs *regs, long nr, bool compat)
{
	__u64 args[6];

	if (!may_connect(nr, compat))
		return false;
	if (compat && nr == CALL_SOCKETCALL_32)
		return read_socketcall(call, regs);
	args[0] = call_arg(regs, 0, compat);
	args[1] = call_arg(regs, 1, compat);
	args[2] = call_arg(regs, 2, compat);
	args[3] = call_arg(regs, 3, compat);
	args[4] = call_arg(regs, 4, compat);
	args[5] = call_arg(regs, 5, compat);
	return read_args(call, args, kind_of_call(nr, compat), compat);
}

#endif
