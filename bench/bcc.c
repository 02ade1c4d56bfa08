/*
 * Does one thing COUNT times, and prints the CPU time of each, in ns.
 *
 * usage: bcc allocations|reads COUNT [DEVICE]
 *
 * allocations: of 64 bytes, which is freed at once; reads: of 4 KiB of a block device, past the page cache.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES 4096

static void allocations(int count)
{
	for (int i = 0; i < count; i++) {
		void *volatile block = malloc(64);

		free(block);
	}
}

static void reads(int count, const char *device)
{
	int file = open(device, O_RDONLY | O_DIRECT);
	void *buffer = aligned_alloc(BYTES, BYTES);

	if (file < 0)
		err(1, "%s", device);
	for (int i = 0; i < count; i++)
		if (pread(file, buffer, BYTES, (off_t)(i % 1024) * BYTES) != BYTES)
			err(1, "pread");
}

int main(int argc, char **argv)
{
	int count = atoi(argv[2]);
	struct timespec spent;

	if (!strcmp(argv[1], "allocations"))
		allocations(count);
	else
		reads(count, argv[3]);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
	printf("%.1f\n", (spent.tv_sec * 1e9 + spent.tv_nsec) / count);
	return 0;
}
