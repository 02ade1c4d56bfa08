/*
 * RANKS ACCOUNT: makes a process per rank, which is called after it, and splits their communicator: by odd and even, in
 * the reverse order; all but rank 0, in the same order; and these again, with rank 3 first. In each new one, there are
 * three collectives. The stand-in's account goes to a file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_stand_in.h"

static void use(ncclComm_t comm, size_t count)
{
	for (int i = 0; i < 3; i++)
		ncclAllReduce(NULL, NULL, count, INT8, SUM, comm, NULL);
}

static void run(int rank, int ranks, ncclUniqueId id)
{
	ncclComm_t world, some, others;
	char name[16];

	snprintf(name, sizeof(name), "nccl-%d", rank);
	prctl(PR_SET_NAME, name);
	ncclCommInitRank(&world, ranks, id, rank);
	ncclCommSplit(world, rank % 2, -rank, &some, NULL);
	use(some, 11);
	ncclCommDestroy(some);
	ncclCommSplit(world, rank ? 7 : -1, 0, &some, NULL);
	if (rank) {
		use(some, 13);
		ncclCommSplit(some, 0, rank == 3 ? -1 : 0, &others, NULL);
		use(others, 17);
	}
}

int main(int argc, char **argv)
{
	int ranks = atoi(argv[1]);
	ncclUniqueId id;

	dup2(open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
	ncclGetUniqueId(&id);
	for (int rank = 0; rank < ranks; rank++) {
		if (fork() == 0) {
			run(rank, ranks, id);
			exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	shm_unlink(id.internal);
	return 0;
}
