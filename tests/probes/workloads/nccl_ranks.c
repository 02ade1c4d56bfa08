/*
 * RANKS LATE [ACCOUNT [PAUSE]]: makes a process per rank. In each collective, ranks come in the order of their numbers,
 * but rank LATE comes last, 20 ms after the others. At the end, one process is all ranks of another communicator. The
 * stand-in's account goes to a file. PAUSE: seconds before the first call.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_stand_in.h"

#define STREAM ((void *)0x5000)

static int ranks, late;
static long collectives;

/* Waits for the rank's turn. */
static void wait_turn(ncclComm_t comm, int rank)
{
	int before = rank == late ? ranks - 1 : rank - (rank > late);

	while (entered_collectives(comm) < collectives * ranks + before)
		usleep(100);
	collectives++;
	if (rank == late)
		usleep(20000);
}

static void run(int rank, ncclUniqueId id)
{
	ncclComm_t comm;

	if (rank == 0)
		ncclCommInitRank(&comm, ranks, id, rank);
	else if (rank == 1)
		ncclCommInitRankConfig(&comm, ranks, id, rank, NULL);
	else
		ncclCommInitRankScalable(&comm, ranks, rank, 1, &id, NULL);
	for (int i = 0; i < 7; i++) {
		wait_turn(comm, rank);
		ncclAllReduce(NULL, NULL, 1009 + i, FLOAT32, SUM, comm, STREAM);
	}
	cudaStreamSynchronize(STREAM);
	cudaStreamSynchronize(STREAM);
	for (int i = 0; i < 3; i++) {
		wait_turn(comm, rank);
		ncclBcast(NULL, 211, BFLOAT16, 1, comm, NULL);
	}
	wait_turn(comm, rank);
	ncclReduce(NULL, NULL, 307, INT8, MAX, 2, comm, STREAM);
	wait_turn(comm, rank);
	ncclReduceScatter(NULL, NULL, 401, FLOAT64, AVG, comm, STREAM);
	wait_turn(comm, rank);
	ncclAllGather(NULL, NULL, 503, INT64, comm, STREAM);
	wait_turn(comm, rank);
	ncclAlltoAll(NULL, NULL, 601, FLOAT8E5M2, comm, STREAM);
	wait_turn(comm, rank);
	ncclGather(NULL, NULL, 701, FLOAT32, 0, comm, STREAM);
	wait_turn(comm, rank);
	ncclScatter(NULL, NULL, 809, FLOAT32, 0, comm, STREAM);
	wait_turn(comm, rank);
	ncclAllReduce(NULL, NULL, 1l << 33, FLOAT64, 17, comm, STREAM);
	ncclGroupStart();
	ncclSend(NULL, 907 + rank, FLOAT32, (rank + 1) % ranks, comm, STREAM);
	ncclRecv(NULL, 907 + (rank + ranks - 1) % ranks, FLOAT32, (rank + ranks - 1) % ranks, comm, STREAM);
	ncclGroupEnd();
	cudaStreamSynchronize(STREAM);
	cuStreamSynchronize(NULL);
	ncclAllReduce(NULL, NULL, 1, 99, SUM, comm, STREAM);
	ncclCommDestroy(comm);
}

static void run_all(void)
{
	ncclComm_t *comms = calloc(ranks, sizeof(*comms));

	ncclCommInitAll(comms, ranks, NULL);
	ncclGroupStart();
	for (int rank = 0; rank < ranks; rank++)
		ncclAllReduce(NULL, NULL, 1013, FLOAT64, MIN, comms[rank], NULL);
	ncclGroupEnd();
	cudaDeviceSynchronize();
	cudaDeviceSynchronize();
	for (int rank = 0; rank < ranks; rank++)
		ncclCommDestroy(comms[rank]);
}

int main(int argc, char **argv)
{
	ncclUniqueId id;

	ranks = atoi(argv[1]);
	late = atoi(argv[2]);
	if (argc > 3)
		dup2(open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
	if (argc > 4)
		sleep(atoi(argv[4]));
	ncclGetUniqueId(&id);
	for (int rank = 0; rank < ranks; rank++) {
		if (fork() == 0) {
			run(rank, id);
			exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	shm_unlink(id.internal);
	run_all();
	return 0;
}
