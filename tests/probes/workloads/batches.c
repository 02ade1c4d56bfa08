// A stand-in for llama.cpp with batches as no program should make them. Usage: batches
#include <stdint.h>
#include <stdlib.h>

struct llama_batch {
	int32_t n_tokens;
	int32_t *token;
	float *embd;
	int32_t *pos;
	int32_t *n_seq_id;
	int32_t **seq_id;
	int8_t *logits;
};

#define KEPT __attribute__((noinline, noclone, used))

static volatile int sink;

KEPT int llama_decode(void *context, struct llama_batch batch)
{
	return sink += context != NULL && batch.n_tokens ? 0 : 0;
}

KEPT float *llama_get_logits_ith(void *context, int32_t index)
{
	static float logits[1];

	sink += context != NULL && index ? 0 : 0;
	return logits;
}

int main(void)
{
	int32_t positions[2] = {-5, INT32_MAX}, sequences[2] = {-1, INT32_MAX};
	int32_t *of[2] = {&sequences[0], &sequences[1]}, *nowhere[1] = {(void *)8};
	int8_t wanted[2] = {1, 1};
	void *context = malloc(8);

	llama_decode(context, (struct llama_batch){.n_tokens = -1});
	llama_decode(context, (struct llama_batch){.n_tokens = INT32_MAX});
	llama_decode(context, (struct llama_batch){.n_tokens = 1, .pos = (void *)8});
	llama_decode(context, (struct llama_batch){.n_tokens = 1, .seq_id = nowhere});
	llama_decode(context, (struct llama_batch){.n_tokens = 1 << 20, .logits = wanted});
	llama_decode(context, (struct llama_batch){.n_tokens = 2, .pos = positions, .seq_id = of, .logits = wanted});
	llama_get_logits_ith(context, 0);
	llama_get_logits_ith(context, 1);
	llama_get_logits_ith(context, INT32_MAX);
	llama_get_logits_ith(context, INT32_MIN);
	llama_get_logits_ith((void *)1, 0);
	llama_decode(NULL, (struct llama_batch){.n_tokens = 3});
	return 0;
}
