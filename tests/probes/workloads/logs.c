/*
 * Exports the functions that get the logs of Ollama and llama.cpp, and calls them so often with each level: of the
 * first one 7, 11, 13 and 3 times, then a line in pieces, a long one, and what no level is.
 */
#include <string.h>

#define LOG(name) __attribute__((noinline, visibility("default"))) void name(int level, const char *text, void *user)

static volatile long written;

LOG(llamaLog)
{
	written += level + strlen(text) + !!user;
}

LOG(_Z27common_log_default_callback14ggml_log_levelPKcPv)
{
	written += 2 * level + strlen(text) + !!user;
}

LOG(_Z26llama_log_callback_default14ggml_log_levelPKcPv)
{
	written += 3 * level + strlen(text) + !!user;
}

LOG(ggml_log_callback_default)
{
	written += 4 * level + strlen(text) + !!user;
}

int main(void)
{
	static const int times[] = {0, 7, 11, 13, 3};
	static char line[1500];

	for (int level = 1; level < 5; level++)
		for (int i = 0; i < times[level]; i++)
			llamaLog(level, "a line\n", 0);
	llamaLog(2, "begins, ", 0);
	llamaLog(5, "goes on, ", 0);
	llamaLog(5, "ends\n", 0);
	llamaLog(1, "begins unseen, ", 0);
	llamaLog(5, "ends unseen\n", 0);
	memset(line, 'x', sizeof(line) - 1);
	llamaLog(4, line, 0);
	llamaLog(4, line + sizeof(line) - 1024, 0);
	llamaLog(0, "", 0);
	llamaLog(77, "what level?\n", 0);
	for (int i = 0; i < 5; i++)
		_Z27common_log_default_callback14ggml_log_levelPKcPv(3, "common\n", 0);
	for (int i = 0; i < 17; i++)
		_Z26llama_log_callback_default14ggml_log_levelPKcPv(1, "llama\n", 0);
	for (int i = 0; i < 19; i++)
		ggml_log_callback_default(1, "ggml\n", 0);
	return 0;
}
