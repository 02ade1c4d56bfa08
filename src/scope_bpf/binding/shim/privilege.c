/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Capabilities that are effective only around the calls that need them. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

/*
 * Makes a capability of this thread effective or not; threads that it starts inherit that. Without the capability,
 * nothing changes. Returns whether it was effective, or -errno.
 */
int scope_set_effective(uint32_t capability, bool effective)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3], *set = &sets[CAP_TO_INDEX(capability)];
	uint32_t bit = CAP_TO_MASK(capability);
	bool was;

	if (syscall(SYS_capget, &header, sets))
		return -errno;
	was = set->effective & bit;
	if (was == effective || !(set->permitted & bit))
		return was;
	set->effective ^= bit;
	return syscall(SYS_capset, &header, sets) ? -errno : was;
}

/* A descriptor, or -errno. While it is open, the kernel measures programs: see BPF_ENABLE_STATS in bpf(2). */
int scope_enable_statistics(void)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	return fd < 0 ? -errno : fd;
}
