/*
 * A stand-in for NVML (libnvidia-ml.so.1) on hosts without a GPU: two GPUs in known states. The first has all values;
 * the second is a laptop's under an older driver, without many of them. NVML_PROCESSES names a file with the processes
 * of the first, in lines of a pid and bytes; without the file, NVML gives no answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, NO_PERMISSION = 4, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };

static char devices[2];
#define IS_FIRST(device) ((device) == &devices[0])

struct utilization {
	unsigned gpu, memory;
};

struct memory {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

struct event {
	void *device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

int nvmlInitWithFlags(unsigned flags)
{
	return getenv("NVML_FAILS") ? atoi(getenv("NVML_FAILS")) : SUCCESS;
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

const char *nvmlErrorString(int result)
{
	return result == 18 ? "Driver/library version mismatch" : "Some error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "580.1.2");
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = getenv("NVML_COUNT") ? atoi(getenv("NVML_COUNT")) : 2;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &devices[index];
	return SUCCESS;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
	*index = !IS_FIRST(device);
	return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length)
{
	snprintf(uuid, length, "GPU-%d", IS_FIRST(device) ? 101 : 103);
	return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
	snprintf(name, length, "NVIDIA %s", IS_FIRST(device) ? "H100 80GB HBM3" : "GeForce RTX 2060");
	return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *utilization)
{
	*utilization = (struct utilization){97, 41};
	return IS_FIRST(device) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
	*memory = (struct memory){6ull << 30, 4ull << 30, 2ull << 30};
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory)
{
	memory->total = 80ull << 30;
	memory->reserved = 1ull << 30;
	memory->used = 7ull << 30;
	memory->free = 72ull << 30;
	return IS_FIRST(device) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
	*celsius = 61;
	return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
	*milliwatts = 412345;
	return IS_FIRST(device) ? SUCCESS : NO_PERMISSION;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
	*milliwatts = 700000;
	return IS_FIRST(device) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz)
{
	*mhz = clock == 1 ? 1980 : 2619;
	return SUCCESS;
}

/* nvmlDeviceGetCurrentClocksEventReasons is missing, as before driver 535. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
	*reasons = IS_FIRST(device) ? 0x24 : 0;
	return SUCCESS;
}

int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *kib)
{
	*kib = counter ? 3000 : 5000; /* received, sent */
	return IS_FIRST(device) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *generation)
{
	*generation = 5;
	return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width)
{
	*width = 16;
	return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count)
{
	*count = kind ? 2 : 17;
	return IS_FIRST(device) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *processes)
{
	const char *path = getenv("NVML_PROCESSES");
	FILE *file = path && IS_FIRST(device) ? fopen(path, "r") : NULL;
	unsigned room = *count, pid;
	unsigned long long used;

	*count = 0;
	if (!file)
		return path && IS_FIRST(device) ? NO_PERMISSION : SUCCESS;
	for (; fscanf(file, "%u %llu", &pid, &used) == 2; ++*count)
		if (*count < room)
			processes[*count] = (struct process){pid, used, -1, -1};
	fclose(file);
	return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *processes)
{
	*count = 0;
	return NOT_SUPPORTED;
}

int nvmlEventSetCreate(void **set)
{
	*set = malloc(1);
	return SUCCESS;
}

int nvmlEventSetFree(void *set)
{
	free(set);
	return SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types)
{
	*types = 0xb;
	return SUCCESS;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
	return IS_FIRST(device) ? SUCCESS : NOT_SUPPORTED;
}

/* Returns two errors, each once. */
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms)
{
	static const struct event events[] = {{&devices[0], 8, 79, -1, -1}, {&devices[0], 2, 0, -1, -1}};
	static unsigned next;

	if (next == sizeof(events) / sizeof(events[0]))
		return TIMEOUT;
	*event = events[next++];
	return SUCCESS;
}
