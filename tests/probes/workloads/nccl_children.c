/*
 * ACCOUNT: makes communicators of others, in every way, most of them at the address of one that has ended. Each sends a
 * number of elements of its own. The stand-in's account goes to a file.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_stand_in.h"

#define RANKS 7

static ncclComm_t meanwhile;

static void send(ncclComm_t comm, size_t count)
{
	ncclSend(NULL, count, INT8, 0, comm, NULL);
}

static void init(ncclComm_t *comm, int rank)
{
	ncclUniqueId id;

	ncclGetUniqueId(&id);
	ncclCommInitRank(comm, RANKS, id, rank);
	shm_unlink(id.internal);
}

static void *init_another(void *unused)
{
	init(&meanwhile, 6);
	return NULL;
}

/* Another thread makes a communicator before ncclCommDestroy has returned. */
static void wait_for_another(void)
{
	pthread_t thread;

	on_end = NULL;
	pthread_create(&thread, NULL, init_another, NULL);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	ncclComm_t parents[RANKS], child;
	int excluded[] = {0, 3};
	ncclUniqueId id = {};

	dup2(open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
	ncclCommInitAll(parents, RANKS, NULL);
	send(parents[2], 101);

	ncclCommAbort(parents[0]);
	ncclCommSplit(parents[2], 5, 0, &child, NULL);
	send(child, 211);
	ncclCommSplit(parents[2], -1, 0, &child, NULL); /* NCCL_SPLIT_NOCOLOR */
	ncclCommDestroy(parents[1]);
	ncclCommShrink(parents[2], excluded, 2, &child, NULL, 0);
	send(child, 223);
	ncclCommDestroy(parents[3]);
	ncclCommGrow(parents[2], RANKS + 2, &id, -1, &child, NULL);
	send(child, 227);
	ncclCommDestroy(parents[4]);
	ncclGroupStart();
	ncclCommSplit(parents[2], 5, 0, &child, NULL);
	ncclGroupEnd();
	send(child, 229);

	ncclCommDestroy(child); /* its address is that of a communicator that tells its rank again */
	ncclGroupStart();
	init(&child, 5);
	ncclGroupEnd();
	send(child, 103);
	on_end = wait_for_another;
	ncclCommDestroy(child);
	send(meanwhile, 107);
	ncclGetUniqueId(&id);
	ncclCommInitRankConfig(&child, RANKS, id, 4, &id);
	shm_unlink(id.internal);
	send(child, 109);
	ncclCommRevoke(meanwhile, 0);
	ncclCommFinalize(parents[2]);
	ncclCommDestroy(parents[2]);
	return 0;
}
