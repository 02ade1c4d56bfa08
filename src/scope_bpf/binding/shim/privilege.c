/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keeps CAP_SYS_ADMIN out of the effective set, except for the one call that needs it. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

#define ADMIN (1U << CAP_SYS_ADMIN)

/*
 * Makes CAP_SYS_ADMIN of this thread effective or not; threads that it starts inherit that. Without the capability,
 * nothing changes. Returns whether it was effective, or -errno.
 */
static int set_admin(bool effective)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	int was;

	if (syscall(SYS_capget, &header, sets))
		return -errno;
	was = !!(sets[0].effective & ADMIN);
	sets[0].effective = effective ? sets[0].effective | (sets[0].permitted & ADMIN) : sets[0].effective & ~ADMIN;
	return syscall(SYS_capset, &header, sets) ? -errno : was;
}

/* 0 or -errno. */
int scope_set_admin_aside(void)
{
	int result = set_admin(false);

	return result < 0 ? result : 0;
}

/* A descriptor, or -errno. While it is open, the kernel measures programs: see BPF_ENABLE_STATS in bpf(2). */
int scope_enable_statistics(void)
{
	int was = set_admin(true), fd, error;

	if (was < 0)
		return was;
	fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	error = -errno;
	if (!was)
		set_admin(false);
	return fd < 0 ? error : fd;
}
