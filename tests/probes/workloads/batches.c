// A stand-in for llama.cpp. Usage: batches absurd | failing | nested | frees | idle | image | half | warmup | stops
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static int stops_inside;

/* Lets a child end the stop. */
static void be_stopped(void)
{
	pid_t child = fork();

	while (!child) {
		usleep(20000);
		kill(getppid(), SIGCONT);
	}
	raise(SIGSTOP);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

KEPT int llama_decode(void *context, struct llama_batch batch)
{
	if (stops_inside)
		be_stopped();
	sink += context != NULL && batch.n_tokens;
	return (int)(intptr_t)batch.embd; /* the wanted result */
}

KEPT void *llama_init_from_model(void *model)
{
	sink++;
	return model;
}

KEPT void llama_memory_clear(void *memory, _Bool data)
{
	sink += memory != NULL && data;
}

KEPT float *llama_get_embeddings_seq(void *context, int32_t sequence)
{
	sink += context != NULL && sequence;
	return NULL;
}

static int wait_us;

KEPT void llama_synchronize(void *context)
{
	usleep(wait_us);
	sink += context != NULL;
}

KEPT void llama_free(void *context)
{
	free(context);
	sink++;
}

KEPT float *llama_get_logits_ith(void *context, int32_t index)
{
	static float logits[1];

	if (wait_us)
		llama_synchronize(context);
	sink += context != NULL && index;
	return logits;
}

static int decode(void *context, int first, int count, int result)
{
	int32_t positions[16];
	int8_t wanted[16] = {};

	for (int i = 0; i < count; i++)
		positions[i] = first + i;
	wanted[count - 1] = first + count >= 10; /* the prompt has ten tokens */
	return llama_decode(context, (struct llama_batch){.n_tokens = count,
							  .embd = (void *)(intptr_t)result,
							  .pos = positions,
							  .logits = wanted});
}

/* A prompt that is too large for the context's room at first, and a token whose first batch fails. */
static void fail(void *context)
{
	decode(context, 0, 10, 1);
	decode(context, 0, 5, 0);
	decode(context, 5, 5, -3);
	decode(context, 5, 5, 0);
	llama_get_logits_ith(context, 4);
	decode(context, 10, 1, 1);
	decode(context, 10, 1, 0);
	llama_get_logits_ith(context, 0);
	decode(context, 3, 7, 0); /* another prompt, of which three tokens are there already */
	llama_get_logits_ith(context, -1);
}

static void prompt_and_token(void *context)
{
	decode(context, 0, 10, 0);
	llama_get_logits_ith(context, 9);
}

static void token(void *context, int position)
{
	decode(context, position, 1, 0);
	llama_get_logits_ith(context, 0);
}

/* As programs for models with images do: each batch of an image has the same position for all its tokens. */
static void show_image(void *context)
{
	int32_t same[4] = {5, 5, 5, 5};
	int8_t none[4] = {};
	struct llama_batch image = {.n_tokens = 4, .embd = NULL, .pos = same, .logits = none};

	decode(context, 0, 5, 0);
	image.token = NULL;
	image.embd = (void *)(intptr_t)(1LL << 32); /* the result is in the lower half */
	llama_decode(context, image);
	llama_decode(context, image);
	decode(context, 17, 5, 0);
	llama_get_logits_ith(context, 4);
}

/* Batches as no program should make them. */
static void be_absurd(void *context)
{
	int32_t positions[2] = {-5, INT32_MAX}, sequences[2] = {-1, INT32_MAX};
	int32_t *of[2] = {&sequences[0], &sequences[1]}, *nowhere[1] = {(void *)8};
	int8_t wanted[2] = {1, 1};

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
}

int main(int argc, char **argv)
{
	void *context = malloc(8);
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "failing"))
		fail(context);
	if (!strcmp(what, "absurd"))
		be_absurd(context);
	if (!strcmp(what, "nested")) {
		wait_us = 20000;
		prompt_and_token(context);
	}
	if (!strcmp(what, "frees")) {
		prompt_and_token(context);
		llama_free(NULL);
		token(context, 10);
		llama_free(context);
	}
	if (!strcmp(what, "idle")) {
		prompt_and_token(context);
		token(context, 10);
		sleep(5);
		for (int position = 11; position < 14; position++)
			token(context, position);
	}
	if (!strcmp(what, "image"))
		show_image(context);
	if (!strcmp(what, "warmup")) {
		context = llama_init_from_model(context);
		for (int i = 0; i < 2; i++) {
			decode(context, 0, 2, 0);
			llama_memory_clear(context, 1);
		}
		decode(context, 0, 10, 0);
		llama_get_embeddings_seq(context, 0);
		llama_memory_clear(context, 1);
		prompt_and_token(context);
	}
	if (!strcmp(what, "stops")) {
		prompt_and_token(context);
		token(context, 10);
		be_stopped();
		token(context, 11);
		stops_inside = 1;
		token(context, 12);
	}
	if (!strcmp(what, "half")) {
		decode(context, 0, 5, 0);
		raise(SIGSTOP);
		decode(context, 5, 5, 0);
		llama_get_logits_ith(context, 4);
		prompt_and_token(context);
	}
	return 0;
}
