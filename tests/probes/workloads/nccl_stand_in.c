/*
 * A stand-in for libnccl on hosts without a GPU. Functions of the same names and arguments succeed and print an account
 * of each call; a collective waits until all ranks have called it. Ranks may be processes: they meet in a file of
 * shared memory whose name is in the unique id. A communicator of another one takes the memory of the one that ended
 * last, if one did; one that is made in a group has no handle before the group's end, as in NCCL.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_stand_in.h"

#define MOST_RANKS 64

struct meeting {
	atomic_long entered; /* calls of collectives by all ranks */
	atomic_long began,
		parted; /* calls of ncclCommSplit by all ranks, and those that have read what the others want */
	int colors[MOST_RANKS], keys[MOST_RANKS];
};

struct ncclComm {
	int rank, ranks, waits;
	long called, splits;
	struct meeting *meeting;
	ncclUniqueId id;
};

static struct ncclComm *ended;
static int groups;
static ncclComm_t *grouped_to, grouped; /* the one that is made in a group */

void (*on_end)(void);

static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; /* by ncclDataType_t */

static int tell(const char *function, struct ncclComm *comm, size_t count, int type, int op, int root, int peer,
		void *stream, int result)
{
	char line[256];
	int length =
		snprintf(line, sizeof(line), "%s %d %d %ld %d %d %d %d %ld %d\n", function, comm->rank, comm->ranks,
			 type < 12 ? (long)count * sizes[type] : -1, type, op, root, peer, (long)stream, result);

	return write(1, line, length) == length ? result : 3;
}

static int collect(const char *function, struct ncclComm *comm, size_t count, int type, int op, int root, void *stream)
{
	if (type >= 12)
		return tell(function, comm, count, type, op, root, -1, stream, 4);
	atomic_fetch_add(&comm->meeting->entered, 1);
	comm->called++;
	while (comm->waits && atomic_load(&comm->meeting->entered) < comm->called * comm->ranks)
		usleep(100);
	return tell(function, comm, count, type, op, root, -1, stream, 0);
}

int ncclGetUniqueId(ncclUniqueId *id)
{
	memset(id, 0, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "/nccl-%d-%ld", getpid(), random());
	return 0;
}

static int make(ncclComm_t *made, int ranks, const ncclUniqueId *id, int rank, int waits)
{
	int file = shm_open(id->internal, O_RDWR | O_CREAT, 0600);
	struct ncclComm *comm = ended ? ended : malloc(sizeof(*comm));

	ended = NULL;
	if (rank >= ranks || file < 0 || ftruncate(file, sizeof(struct meeting)))
		return 4;
	comm->rank = rank;
	comm->ranks = ranks;
	comm->waits = waits;
	comm->called = comm->splits = 0;
	comm->id = *id;
	comm->meeting = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	*made = comm;
	return 0;
}

int ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	return make(comm, ranks, &id, rank, 1);
}

int ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, void *config)
{
	int result = make(comm, ranks, &id, rank, 1);

	return result || !config ? result : 7; /* ncclInProgress: the communicator does not block */
}

int ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int ids, ncclUniqueId *id, void *config)
{
	return make(comm, ranks, id, rank, 1);
}

int ncclCommInitAll(ncclComm_t *comms, int devices, const int *list)
{
	ncclUniqueId id;

	ncclGetUniqueId(&id);
	for (int rank = 0; rank < devices; rank++)
		make(&comms[rank], devices, &id, rank, 0); /* one thread calls for all ranks */
	return shm_unlink(id.internal);
}

static int end(ncclComm_t comm)
{
	munmap(comm->meeting, sizeof(*comm->meeting));
	ended = comm;
	if (on_end)
		on_end();
	return 0;
}

int ncclCommDestroy(ncclComm_t comm)
{
	return end(comm);
}

int ncclCommAbort(ncclComm_t comm)
{
	return end(comm);
}

int ncclCommFinalize(ncclComm_t comm)
{
	return 0;
}

int ncclCommRevoke(ncclComm_t comm, int flags)
{
	return 0;
}

/* Makes a communicator of another one, in which this rank is the last. */
static int derive(ncclComm_t *made, int ranks)
{
	ncclUniqueId id;
	int result;

	*made = NULL;
	ncclGetUniqueId(&id);
	result = make(groups ? &grouped : made, ranks, &id, ranks - 1, 0);
	grouped_to = groups ? made : NULL;
	shm_unlink(id.internal);
	return result;
}

static void meet(ncclComm_t comm, atomic_long *all)
{
	atomic_fetch_add(all, 1);
	while (atomic_load(all) < comm->splits * comm->ranks)
		usleep(100);
}

/* The place of this rank among those of its color, which are sorted as NCCL does it. Returns how many there are. */
static int sort_color(ncclComm_t comm, int *place)
{
	const int *colors = comm->meeting->colors, *keys = comm->meeting->keys;
	int sorted[MOST_RANKS], count = 0, at;

	for (int rank = 0; rank < comm->ranks; rank++) {
		if (colors[rank] != colors[comm->rank])
			continue;
		for (at = count++; at && keys[sorted[at - 1]] > keys[rank]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = rank;
	}
	for (*place = 0; sorted[*place] != comm->rank; ++*place)
		;
	return count;
}

int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made, void *config)
{
	ncclUniqueId id = {};
	int place, count;

	*made = NULL;
	if (!comm->waits)
		return color < 0 ? 0 : derive(made, comm->ranks - 1);
	comm->splits++;
	comm->meeting->colors[comm->rank] = color;
	comm->meeting->keys[comm->rank] = key;
	meet(comm, &comm->meeting->began);
	count = sort_color(comm, &place);
	snprintf(id.internal, sizeof(id.internal), "%.80s-%ld-%d", comm->id.internal, comm->splits, color);
	if (color >= 0)
		make(made, count, &id, place, 1);
	meet(comm, &comm->meeting->parted);
	shm_unlink(id.internal);
	return 0;
}

int ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *made, void *config, int flags)
{
	return derive(made, comm->ranks - count);
}

int ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank, ncclComm_t *made, void *config)
{
	return derive(made, ranks);
}

int ncclGroupStart(void)
{
	groups++;
	return 0;
}

int ncclGroupEnd(void)
{
	if (--groups == 0 && grouped_to) {
		*grouped_to = grouped;
		grouped_to = NULL;
	}
	return 0;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, op, -1, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, op, -1, stream);
}

int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, op, root, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, -1, -1, stream);
}

int ncclAlltoAll(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, -1, -1, stream);
}

int ncclGather(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, -1, root, stream);
}

int ncclScatter(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, -1, root, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
	return collect(__func__, comm, count, type, -1, root, stream);
}

/* Calls the former, as in NCCL. */
int ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

int ncclSend(const void *from, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
	return tell(__func__, comm, count, type, -1, -1, peer, stream, 0);
}

int ncclRecv(void *to, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
	return tell(__func__, comm, count, type, -1, -1, peer, stream, 0);
}

int cuStreamSynchronize(void *stream)
{
	return usleep(3000);
}

int cudaStreamSynchronize(void *stream)
{
	return cuStreamSynchronize(stream);
}

int cuCtxSynchronize(void)
{
	return usleep(3000);
}

int cudaDeviceSynchronize(void)
{
	return cuCtxSynchronize();
}

long entered_collectives(ncclComm_t comm)
{
	return atomic_load(&comm->meeting->entered);
}
