/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SCOPE_SHIM_H
#define SCOPE_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_link;
struct bpf_map;
struct bpf_object;
struct bpf_program;

#include "../cdef/shim.h"

#endif
