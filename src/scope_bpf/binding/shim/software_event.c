/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs a program at events that the kernel counts, such as page faults, or at regular times: a perf event. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

/*
 * config: PERF_COUNT_SW_*. rate: times a second; 0: at each event. On one CPU, for every process. NULL and errno on
 * failure, ENODEV if the CPU is offline.
 */
struct bpf_link *scope_attach_software_event(const struct bpf_program *program, uint64_t config, uint64_t rate, int cpu)
{
	struct perf_event_attr wanted = {.type = PERF_TYPE_SOFTWARE,
					 .size = sizeof(wanted),
					 .config = config,
					 .freq = rate > 0,
					 .sample_period = rate ? rate : 1}; /* in a union with sample_freq */
	int fd = syscall(SYS_perf_event_open, &wanted, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC), error;
	struct bpf_link *link;

	if (fd < 0)
		return NULL;
	link = bpf_program__attach_perf_event(program, fd); /* from now on, the link owns the descriptor */
	if (!link) {
		error = errno;
		close(fd);
		errno = error;
	}
	return link;
}
