/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Demangles C++ names with the C++ runtime, which this package's dependencies have loaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "shim.h"

/* Itanium C++ ABI, chapter 3.4 */
static char *(*cxa_demangle)(const char *name, char *buffer, size_t *length, int *status);
static pthread_once_t looked_for = PTHREAD_ONCE_INIT;

static void find(void)
{
	void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY);

	if (runtime)
		*(void **)&cxa_demangle = dlsym(runtime, "__cxa_demangle");
}

/* Returns text that the caller frees; NULL: not a mangled name, or no C++ runtime. */
char *scope_demangle(const char *name)
{
	int status;

	pthread_once(&looked_for, find);
	return cxa_demangle ? cxa_demangle(name, NULL, NULL, &status) : NULL;
}
