/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of functions in user space, by their registers: integer arguments as the System V ABI for x86-64 (3.2.3) and
 * the AAPCS64 (6.8.2) pass them. A struct of up to 16 bytes takes an argument per eight bytes.
 */
#ifndef SCOPE_CALL_BPF_H
#define SCOPE_CALL_BPF_H

#define CALL_ARGUMENTS 16 /* a power of two; ten are read */

/* A frame as compilers make it that keep frame pointers. */
struct user_frame {
	__u64 outer;
	__u64 return_address;
};

/*
 * Reads the arguments at the first instruction of a function, those on the stack only if `most` asks for them; and what
 * its frame will be: the frame pointer is the caller's still.
 */
static __always_inline void read_entry(struct pt_regs *ctx, struct user_frame *frame, __u64 args[CALL_ARGUMENTS],
				       __u32 most)
{
#if defined(__TARGET_ARCH_x86)
	__u64 stack[5] = {}; /* the return address, then what did not fit into registers */

	bpf_probe_read_user(stack, most > 6 ? sizeof(stack) : sizeof(stack[0]), (void *)ctx->sp);
	frame->return_address = stack[0];
	frame->outer = ctx->bp;
	args[0] = ctx->di;
	args[1] = ctx->si;
	args[2] = ctx->dx;
	args[3] = ctx->cx;
	args[4] = ctx->r8;
	args[5] = ctx->r9;
	args[6] = stack[1];
	args[7] = stack[2];
	args[8] = stack[3];
	args[9] = stack[4];
#elif defined(__TARGET_ARCH_arm64)
	struct user_pt_regs *regs = (void *)ctx;

	frame->return_address = regs->regs[30];
	frame->outer = regs->regs[29];
	args[0] = regs->regs[0];
	args[1] = regs->regs[1];
	args[2] = regs->regs[2];
	args[3] = regs->regs[3];
	args[4] = regs->regs[4];
	args[5] = regs->regs[5];
	args[6] = regs->regs[6];
	args[7] = regs->regs[7];
	if (most > 8)
		bpf_probe_read_user(&args[8], 2 * sizeof(args[0]), (void *)regs->sp);
#endif
}

/* What the stack pointer will be when a function returns that is entered now. */
static __always_inline __u64 return_stack(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return ctx->sp + 8; /* ret takes the return address off */
#else
	return PT_REGS_SP(ctx);
#endif
}

#endif
