/* What nccl.h of NCCL 2.32 declares, as far as the tests need it. */
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;

enum { FLOAT32 = 7, FLOAT64 = 8, BFLOAT16 = 9, INT8 = 0, INT64 = 4, FLOAT8E5M2 = 11 };
enum { SUM, PROD, MAX, MIN, AVG };

int ncclGetUniqueId(ncclUniqueId *id);
int ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
int ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, void *config);
int ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int ids, ncclUniqueId *id, void *config);
int ncclCommInitAll(ncclComm_t *comms, int devices, const int *list);
int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made, void *config);
int ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *made, void *config, int flags);
int ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank, ncclComm_t *made, void *config);
int ncclCommFinalize(ncclComm_t comm);
int ncclCommRevoke(ncclComm_t comm, int flags);
int ncclCommDestroy(ncclComm_t comm);
int ncclCommAbort(ncclComm_t comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, void *stream);
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, void *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, ncclComm_t comm, void *stream);
int ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream);
int ncclAlltoAll(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream);
int ncclGather(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, void *stream);
int ncclScatter(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, void *stream);
int ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm, void *stream);
int ncclSend(const void *from, size_t count, int type, int peer, ncclComm_t comm, void *stream);
int ncclRecv(void *to, size_t count, int type, int peer, ncclComm_t comm, void *stream);

int cudaStreamSynchronize(void *stream); /* of CUDA; takes 3 ms, and calls the next */
int cuStreamSynchronize(void *stream);
int cudaDeviceSynchronize(void); /* likewise */
int cuCtxSynchronize(void);

extern void (*on_end)(void); /* of the stand-in: what ncclCommDestroy calls when the memory may be used again */
long entered_collectives(ncclComm_t comm); /* of the stand-in: calls of collectives so far, by all ranks */
