// A stand-in for llama.cpp with operators of ggml, and for a GPU's driver. Usage: operators FILE [stops]
// Writes of each token, in ns: the time on a CPU in each kind of operator, and the time of the wait for the GPU, from
// inside and from outside. With `stops`, it makes three tokens, and stops itself (SIGSTOP) amid each call.
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone, used))
#define TOKENS 8
#define WORK 8000000L
#define WAIT_US 20000

struct llama_batch {
	int32_t n_tokens;
	int32_t *token;
	float *embd;
	int32_t *pos;
	int32_t *n_seq_id;
	int32_t **seq_id;
	int8_t *logits;
};

static bool stops;

static long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

#define OPERATOR(name, work)                                                                                           \
	KEPT void name(void)                                                                                           \
	{                                                                                                              \
		for (volatile long i = 0; i < (work); i++)                                                             \
			;                                                                                              \
	}

OPERATOR(ggml_vec_dot_q4_0_q8_0, 6 * WORK)
OPERATOR(ggml_compute_forward_soft_max, 3 * WORK)
OPERATOR(ggml_compute_forward_rms_norm, 2 * WORK)
OPERATOR(ggml_compute_forward_cpy, 2 * WORK)
OPERATOR(ggml_barrier, 2 * WORK)
OPERATOR(ggml_backend_sched_split_graph, WORK)

static void (*const operators[])(void) = {
	ggml_vec_dot_q4_0_q8_0, ggml_compute_forward_soft_max, ggml_compute_forward_rms_norm, ggml_compute_forward_cpy,
	ggml_barrier,		ggml_backend_sched_split_graph};
static const char *const kinds[] = {"matmul", "attention", "elementwise", "copy", "barrier", "other"};

KEPT int llama_decode(void *context, struct llama_batch batch)
{
	for (int i = 0; i < 6; i++) {
		long begun_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);

		operators[i]();
		printf("\"%s\": %ld, ", kinds[i], now_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns);
		if (stops && i == 0)
			raise(SIGSTOP);
	}
	return batch.n_tokens < 0 || !context;
}

KEPT int cuCtxSynchronize(void)
{
	return usleep(WAIT_US);
}

/* Waits partly on a CPU, as the driver does. */
KEPT int cuStreamSynchronize(void *stream)
{
	long begun_ns = now_ns(CLOCK_MONOTONIC);

	for (volatile long i = 0; i < WORK; i++)
		;
	cuCtxSynchronize();
	printf("\"waited\": %ld, ", now_ns(CLOCK_MONOTONIC) - begun_ns);
	return stream != NULL;
}

KEPT void llama_synchronize(void *context)
{
	long begun_ns = now_ns(CLOCK_MONOTONIC);

	cuStreamSynchronize(context);
	printf("\"waited_in_all\": %ld}\n", now_ns(CLOCK_MONOTONIC) - begun_ns);
}

KEPT float *llama_get_logits_ith(void *context, int32_t index)
{
	static float logits[1];

	llama_synchronize(context); /* as before 2025 */
	return index < 0 ? NULL : logits;
}

int main(int argc, char **argv)
{
	int8_t wanted[1] = {1};
	char context[1];

	if (argc < 2 || !freopen(argv[1], "w", stdout))
		return 1;
	stops = argc > 2;
	for (int32_t position = 0; position < (stops ? 3 : TOKENS); position++) {
		printf("{");
		llama_decode(context, (struct llama_batch){.n_tokens = 1, .pos = &position, .logits = wanted});
		llama_get_logits_ith(context, 0);
	}
	cuStreamSynchronize(NULL); /* in no call of llama.cpp */
	return 0;
}
