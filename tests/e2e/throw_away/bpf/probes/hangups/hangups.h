/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_HANGUPS_H
#define SCOPE_HANGUPS_H

struct hangup_event {
	struct scope_header header;
	__s32 interrupted_pid;
	__u16 port;
	__u8 pad[2];
};

#endif
