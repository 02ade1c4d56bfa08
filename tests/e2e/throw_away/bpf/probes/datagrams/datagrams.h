/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_DATAGRAMS_H
#define SCOPE_DATAGRAMS_H

struct datagram_event {
	struct scope_header header;
	struct scope_address source;
	struct scope_address destination;
	__u16 port;
	__u8 pad[6];
};

#endif
