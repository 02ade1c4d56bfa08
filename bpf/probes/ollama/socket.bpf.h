/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files and stream sockets behind descriptors. */
#ifndef SCOPE_OLLAMA_SOCKET_BPF_H
#define SCOPE_OLLAMA_SOCKET_BPF_H

#include <bpf/bpf_endian.h>

#define S_IFREG 0100000
#define SOCK_STREAM 1
#define AF_INET 2
#define AF_INET6 10

/* The running process's file; NULL: there is no such descriptor. */
static __always_inline struct file *running_file(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = untrusted(task)->files->fdt;
	struct file *file = NULL;

	if ((__u32)fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

static __always_inline __u32 file_type(struct file *file)
{
	return BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
}

/* The number of the file's inode. No other socket has a socket's for long. */
static __always_inline __u64 file_inode(struct file *file)
{
	return BPF_CORE_READ(file, f_inode, i_ino);
}

static __always_inline struct sock *sock_of(struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct socket_alloc *alloc = container_of(inode, struct socket_alloc, vfs_inode);

	return BPF_CORE_READ(alloc, socket.sk);
}

/* False: it does not carry a stream of bytes. */
static __always_inline bool fill_peer(struct ollama_connection *connection, struct sock *sock)
{
	__u16 family = BPF_CORE_READ(sock, __sk_common.skc_family);

	if (!sock || BPF_CORE_READ(sock, sk_type) != SOCK_STREAM)
		return false;
	if (family != AF_INET && family != AF_INET6)
		return true;
	connection->peer_port = bpf_ntohs(BPF_CORE_READ(sock, __sk_common.skc_dport));
	connection->port = BPF_CORE_READ(sock, __sk_common.skc_num);
	connection->peer.family = family;
	if (family == AF_INET)
		bpf_core_read(connection->peer.bytes, 4, &sock->__sk_common.skc_daddr);
	else
		bpf_core_read(connection->peer.bytes, 16, &sock->__sk_common.skc_v6_daddr);
	return true;
}

#endif
