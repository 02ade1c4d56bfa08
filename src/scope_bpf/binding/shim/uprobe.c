/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Attaches to functions of a file, by offsets in the file. A program reads the cookie to tell functions apart.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

/* The part of union bpf_attr for BPF_LINK_CREATE that libbpf 1.1 lacks, include/uapi/linux/bpf.h of 6.6. */
struct uprobe_multi_link {
	uint32_t program_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t link_flags;
	uint64_t path;
	uint64_t offsets;
	uint64_t reference_counts;
	uint64_t cookies;
	uint32_t count;
	uint32_t flags;
	uint32_t pid;
	uint32_t pad;
};

#define UPROBE_MULTI 48	      /* BPF_TRACE_UPROBE_MULTI */
#define UPROBE_MULTI_RETURN 1 /* BPF_F_UPROBE_MULTI_RETURN */

/* Before the object is loaded: the program will be attached by scope_attach_uprobes. */
int scope_expect_uprobes(struct bpf_program *program)
{
	return bpf_program__set_expected_attach_type(program, UPROBE_MULTI);
}

static int attach_uprobes(int program_fd, const char *path, const uint64_t *offsets, const uint64_t *cookies,
			  const uint64_t *counters, uint32_t count, bool at_return)
{
	struct uprobe_multi_link link = {.program_fd = program_fd, .attach_type = UPROBE_MULTI};
	int fd;

	link.path = (uintptr_t)path;
	link.offsets = (uintptr_t)offsets;
	link.cookies = (uintptr_t)cookies;
	link.reference_counts = (uintptr_t)counters;
	link.count = count;
	link.flags = at_return ? UPROBE_MULTI_RETURN : 0;
	fd = syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof(link));
	return fd < 0 ? -errno : fd;
}

/*
 * Attaches to many places at once; returns the link's descriptor. EINVAL on kernels before 6.6. While attached, the
 * kernel keeps the 16-bit counters at the offsets `counters` in the file higher by one; 0: none.
 */
int scope_attach_uprobes(const struct bpf_program *program, const char *path, const uint64_t *offsets,
			 const uint64_t *cookies, const uint64_t *counters, uint32_t count, bool at_return)
{
	return attach_uprobes(bpf_program__fd(program), path, offsets, cookies, counters, count, at_return);
}

/* Can a program be attached to many places at once? Tries it at this one, with a program that does nothing. */
int scope_try_uprobes(const char *path, uint64_t offset)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = UPROBE_MULTI);
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	uint64_t cookie = 0;
	int program, fd;

	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "scope_try", "GPL", nothing, 2, &options);
	if (program < 0)
		return program;
	fd = attach_uprobes(program, path, &offset, &cookie, NULL, 1, false);
	close(program);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

/* Attaches to one place, through a perf event; NULL and errno on failure. */
struct bpf_link *scope_attach_uprobe(const struct bpf_program *program, const char *path, uint64_t offset,
				     uint64_t cookie, uint64_t counter, bool at_return)
{
	LIBBPF_OPTS(bpf_uprobe_opts, options, .bpf_cookie = cookie, .ref_ctr_offset = counter, .retprobe = at_return);

	return bpf_program__attach_uprobe_opts(program, -1, path, offset, &options);
}
