/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tries features of BPF: programs that use them are loaded, and closed at once. */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include "shim.h"

/* Can a program get the value that an atomic operation has changed? */
bool scope_has_atomics(void)
{
	const struct bpf_insn adds[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_1, .imm = 1},
		{.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .src_reg = BPF_REG_1, .off = -8},
		{.code = BPF_STX | BPF_ATOMIC | BPF_DW,
		 .dst_reg = BPF_REG_10,
		 .src_reg = BPF_REG_1,
		 .off = -8,
		 .imm = BPF_ADD | BPF_FETCH},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "scope_try", "GPL", adds, sizeof(adds) / sizeof(*adds), NULL);

	if (program >= 0)
		close(program);
	return program >= 0;
}
