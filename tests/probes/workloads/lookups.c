/*
 * Looks up names by getaddrinfo(), in threads that run at once.
 *
 * usage: lookups PID FILE THREADS COUNT NAME...     enters the network and mounts of process PID; writes "TID NAME
 * RESULT ADDRESS" for each lookup; each thread looks up COUNT names of its own, tTnN; then the first one looks up
 * NAME...; an alarm ends the program if one that begins with lost. takes a second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static FILE *file;
static int count;

static void look_up(const char *name)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
	char address[INET_ADDRSTRLEN] = "-";
	int result = getaddrinfo(name, NULL, &hints, &found);

	if (!result) {
		inet_ntop(AF_INET, &((struct sockaddr_in *)found->ai_addr)->sin_addr, address, sizeof(address));
		freeaddrinfo(found);
	}
	fprintf(file, "%ld %s %d %s\n", syscall(SYS_gettid), name, result, address);
}

static void *look_up_many(void *thread)
{
	char name[64];

	for (int n = 0; n < count; n++) {
		snprintf(name, sizeof(name), "t%dn%d", (int)(intptr_t)thread, n);
		look_up(name);
	}
	return NULL;
}

static int enter(const char *pid, const char *kind)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, kind);
	return setns(open(path, O_RDONLY), 0);
}

int main(int argc, char **argv)
{
	int others = argc > 4 ? atoi(argv[3]) : 0;
	pthread_t threads[64];

	if (argc < 5 || others > 64 || enter(argv[1], "net") || enter(argv[1], "mnt") || !(file = fopen(argv[2], "w")))
		return 2;
	count = atoi(argv[4]);
	for (int n = 0; n < others; n++)
		pthread_create(&threads[n], NULL, look_up_many, (void *)(intptr_t)n);
	for (int n = 0; n < others; n++)
		pthread_join(threads[n], NULL);
	for (int n = 5; n < argc; n++) {
		alarm(strncmp(argv[n], "lost.", 5) ? 0 : 1);
		look_up(argv[n]);
	}
	return fclose(file);
}
