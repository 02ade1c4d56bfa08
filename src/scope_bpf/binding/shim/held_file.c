/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keeps files without a descriptor. */
#include <sys/mman.h>
#include <unistd.h>

#include "shim.h"

/* Keeps a file by mapping one page of it, which needs no descriptor. NULL and errno: the kernel refused. */
void *scope_hold_file(int fd)
{
	void *page = mmap(NULL, getpagesize(), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

void scope_let_go_file(void *page)
{
	munmap(page, getpagesize());
}
