/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_ALARMS_H
#define SCOPE_ALARMS_H

struct alarm_event {
	struct scope_header header;
	__s32 interrupted_pid;
	__u8 pad[4];
};

#endif
