/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of models that processes load: read, or mapped into memory. A file is one if a watched process was seen to read
 * its first bytes, and these are GGUF's: llama.cpp and Ollama read them before they do anything else with it.
 */
#ifndef SCOPE_OLLAMA_MODELS_BPF_H
#define SCOPE_OLLAMA_MODELS_BPF_H

#define GGUF_MAGIC 0x46554747 /* "GGUF", as a number of four bytes */
#define MODEL_FILES 1024
#define MODEL_LOADS 1024
#define MODEL_PATH 1024		     /* bytes of a path */
#define MODEL_IDLE_NS 2000000000ULL  /* a load has ended if nothing has happened for so long ... */
#define MODEL_HELD_NS 30000000000ULL /* ... or this, while the file is still open */

struct ollama_model_key {
	__u64 inode;
	__u32 device;
	__u32 pad;
};

/* Files that are models. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MODEL_FILES);
	__type(key, struct ollama_model_key);
	__type(value, __u32);
} ollama_model_files SEC(".maps");

struct ollama_loads_key {
	__u64 start_ns; /* of the process */
	__u64 inode;
	__s32 pid;
	__u32 device;
};

SCOPE_SHARED(struct, ollama_loads_key);

/* What a process has done with a model file since its last row. */
struct ollama_load {
	struct scope_identity whose;
	__u64 began_ns;
	__u64 last_ns;
	__u64 held; /* address of the struct file that was used last; 0: it was closed */
	__u32 told;
	__u32 pad;
	struct ollama_model_event event; /* the counts */
	char path[MODEL_PATH];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MODEL_LOADS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ollama_loads_key);
	__type(value, struct ollama_load);
} ollama_loads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_buffer);
} ollama_paths SEC(".maps");

static const struct ollama_load no_load;

__u32 models_known SEC(".data.models"); /* there are any: else most calls need not look for one */

/* What a call does with a file. */
struct file_use {
	struct ollama_loads_key key;
	__u64 file;
	__u64 begun_ns;
	__u64 from_begin; /* it reads the first bytes */
};

static __always_inline void fill_use(struct file_use *use, struct task_struct *task, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	use->key.start_ns = task_start_ns(task);
	use->key.inode = BPF_CORE_READ(inode, i_ino);
	use->key.device = BPF_CORE_READ(inode, i_sb, s_dev);
	use->key.pid = task->tgid;
	use->file = (__u64)file;
}

/* Global, because the verifier checks a global function only once. */
__noinline int fill_model_path(struct ollama_load *load, __u64 file_address)
{
	struct file *file = (struct file *)file_address;
	struct path_buffer *buffer;
	__u32 zero = 0, length;
	bool cut = false;

	buffer = bpf_map_lookup_elem(&ollama_paths, &zero);
	if (!load || !buffer)
		return 0;
	length = write_directories(buffer, &file->f_path, &cut);
	barrier_var(length);
	if (length > MODEL_PATH || bpf_probe_read_kernel(load->path, length, buffer->bytes)) {
		scope_count_incomplete(stream_ollama_model);
		return 0;
	}
	load->event.path.length = length;
	load->event.path_truncated = cut;
	return 0;
}

/* What is kept of a process and a model file; NULL: no room. */
static __always_inline struct ollama_load *make_load(struct task_struct *task, const struct file_use *use)
{
	struct ollama_load *load = bpf_map_lookup_elem(&ollama_loads, &use->key);
	struct file *file = (struct file *)use->file;

	if (load && !load->told)
		return load;
	if (!mark_process(use->key.start_ns, use->key.pid))
		return NULL;
	bpf_map_update_elem(&ollama_loads, &use->key, &no_load, BPF_ANY);
	load = bpf_map_lookup_elem(&ollama_loads, &use->key);
	if (!load)
		return NULL;
	fill_identity(&load->whose, task);
	load->began_ns = use->begun_ns;
	load->event.inode = use->key.inode;
	load->event.device = use->key.device;
	load->event.file_bytes = BPF_CORE_READ(file, f_inode, i_size);
	fill_model_path(load, use->file);
	return load;
}

/* A call has read or mapped bytes of a model file. */
static __always_inline void use_model(struct task_struct *task, const struct file_use *use, bool maps, __u64 bytes)
{
	struct ollama_load *load = make_load(task, use);
	__u64 now_ns = bpf_ktime_get_boot_ns();

	if (!load) {
		scope_count_loss(stream_ollama_model, SCOPE_LOST_MAP_FULL);
		return;
	}
	if (maps) {
		__sync_fetch_and_add(&load->event.maps, 1);
		__sync_fetch_and_add(&load->event.mapped_bytes, bytes);
		__sync_fetch_and_add(&load->event.map_ns, now_ns - use->begun_ns);
	} else {
		__sync_fetch_and_add(&load->event.reads, 1);
		__sync_fetch_and_add(&load->event.read_bytes, bytes);
		__sync_fetch_and_add(&load->event.read_ns, now_ns - use->begun_ns);
	}
	load->held = use->file;
	load->last_ns = now_ns;
}

/* Are the first bytes that were read of a file a model's? */
static __always_inline bool is_model(struct http_source *source)
{
	__u32 magic = 0;

	for (int i = 0; i < 4 && !source->segment; i++)
		if (!find_segment(source))
			return false;
	return source->segment >= sizeof(magic) && !bpf_probe_read_user(&magic, sizeof(magic), (void *)source->data) &&
	       magic == GGUF_MAGIC;
}

static __always_inline bool is_known_model(const struct file_use *use)
{
	struct ollama_model_key model = {.inode = use->key.inode, .device = use->key.device};

	return bpf_map_lookup_elem(&ollama_model_files, &model);
}

static __always_inline void keep_model(const struct file_use *use)
{
	struct ollama_model_key model = {.inode = use->key.inode, .device = use->key.device};
	__u32 one = 1;

	bpf_map_update_elem(&ollama_model_files, &model, &one, BPF_ANY);
	models_known = 1;
}

static __always_inline void close_model(const struct file_use *use)
{
	struct ollama_load *load = bpf_map_lookup_elem(&ollama_loads, &use->key);

	if (!load || load->told || load->held != use->file)
		return;
	load->held = 0;
	load->last_ns = bpf_ktime_get_boot_ns();
}

/* Emits the row of a load, once. */
static __noinline int emit_load(struct ollama_load *load, enum ollama_loaded ended)
{
	__u32 length = load->event.path.length;

	if (__sync_val_compare_and_swap(&load->told, 0, 1))
		return 0;
	if (length > MODEL_PATH)
		return 0;
	load->event.duration_ns = load->last_ns - load->began_ns;
	load->event.has_path = length > 0;
	load->event.ended = ended;
	scope_output_for(&load->event.header, &load->whose, stream_ollama_model, load->began_ns,
			 sizeof(load->event) + length);
	return 0;
}

/* Which loads end. */
struct unloading {
	__u64 start_ns; /* only those of this process; 0: all */
	__u64 now_ns;	/* only those that are idle now; 0: all */
	__s32 pid;
	enum ollama_loaded ended;
};

static long end_load(void *map, const struct ollama_loads_key *key, struct ollama_load *load,
		     struct unloading *unloading)
{
	if (unloading->start_ns && (key->start_ns != unloading->start_ns || key->pid != unloading->pid))
		return 0;
	if (unloading->now_ns && unloading->now_ns < load->last_ns + (load->held ? MODEL_HELD_NS : MODEL_IDLE_NS))
		return 0;
	emit_load(load, unloading->ended);
	if (unloading->start_ns || unloading->now_ns)
		bpf_map_delete_elem(map, key);
	return 0;
}

/* User space runs this program like ollama_settle: emits the loads that have ended. */
SEC("raw_tp")
int ollama_settle_loads(struct bpf_raw_tracepoint_args *ctx)
{
	bool all = ctx->args[0];
	struct unloading unloading = {.ended = all ? OLLAMA_LOADED_NOT : OLLAMA_LOADED_IDLE};

	if (!all)
		unloading.now_ns = bpf_ktime_get_boot_ns();
	bpf_for_each_map_elem(&ollama_loads, end_load, &unloading, 0);
	return 0;
}

#endif
