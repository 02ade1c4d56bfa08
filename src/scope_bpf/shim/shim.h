/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SCOPE_SHIM_H
#define SCOPE_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct bpf_map;
struct bpf_object;

#include "../cdef/shim.h"

#endif
