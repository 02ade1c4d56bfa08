/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Keeps libbpf's messages for the error that follows. libbpf prints the verifier log of a refused program as one
 * warning, so a thread's last messages, up to a limit, are enough. Python is never called from here.
 */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "shim.h"

#define LOG_BYTES (1 << 20)

static __thread char log_text[LOG_BYTES];
static __thread size_t log_length;

static int keep(enum libbpf_print_level level, const char *format, va_list args)
{
	size_t room = LOG_BYTES - log_length;
	int wanted;

	if (level == LIBBPF_DEBUG || room <= 1)
		return 0;
	wanted = vsnprintf(log_text + log_length, room, format, args);
	if (wanted > 0)
		log_length += (size_t)wanted < room ? (size_t)wanted : room - 1;
	return 0;
}

__attribute__((constructor)) static void start_keeping(void)
{
	libbpf_set_print(keep);
}

/* libbpf's messages on this thread since the last take; valid until the thread calls libbpf again. */
const char *scope_log_take(void)
{
	log_text[log_length] = '\0';
	log_length = 0;
	return log_text;
}
