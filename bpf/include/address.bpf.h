/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Network addresses in events. */
#ifndef SCOPE_ADDRESS_BPF_H
#define SCOPE_ADDRESS_BPF_H

#include <bpf/bpf_endian.h>

#define AF_INET 2
#define AF_INET6 10

/* IPv4 addresses of IPv6 sockets (::ffff:10.0.0.1) become IPv4 addresses. */
static __always_inline void fill_address(struct scope_address *to, __u16 family, __be32 four, const __u32 *six)
{
	bool mapped = family == AF_INET6 && !six[0] && !six[1] && six[2] == bpf_htonl(0xffff);

	__builtin_memset(to, 0, sizeof(*to));
	if (family == AF_INET || mapped) {
		to->family = AF_INET;
		__builtin_memcpy(to->bytes, family == AF_INET ? &four : &six[3], 4);
	} else {
		to->family = AF_INET6;
		__builtin_memcpy(to->bytes, six, 16);
	}
}

#endif
