/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The headers that every probe includes, in the order in which an event uses them. */
#ifndef SCOPE_BPF_H
#define SCOPE_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "event.h"

#include "core_fixes.bpf.h"
#include "program.bpf.h"
#include "syscall.bpf.h"
#include "task.bpf.h"

#include "emit.bpf.h"
#include "filter.bpf.h"
#include "find.bpf.h"
#include "summary.bpf.h"
#include "thread.bpf.h"

SEC("license")
char LICENSE[] = "GPL";

#endif
