/* The shim's functions for Python, documented in shim/. Read by cffi and by the C compiler. */

/* shim/log.c */
const char *scope_log_take(void);

/* shim/object.c */
struct bpf_object *scope_object_open(const void *elf, size_t size, const char *name);
int scope_create_ring(uint32_t bytes);
int scope_create_like(const struct bpf_object *object, const struct bpf_map *map, uint32_t entries);
int64_t scope_read_map(int fd, void *keys, void *values, uint32_t entries);
void scope_delete_keys(int fd, const void *keys, uint32_t key_size, uint32_t count);
int64_t scope_read_summary(int fd, void *keys, void *values, uint32_t entries);
int scope_run_raw_tp(int fd, uint64_t argument);
int scope_map_value_size(int fd);
int scope_program_cost(int fd, uint64_t *run_time_ns, uint64_t *run_count, uint64_t *missed);

/* shim/privilege.c */
int scope_set_effective(uint32_t capability, bool effective);
int scope_enable_statistics(void);

/* shim/drain.c */
/* Events of one stream, oldest first within a ring. */
typedef struct scope_rows {
	uint8_t *rows; /* count times row_size bytes: the fixed parts */
	size_t count;
	size_t row_size;
	uint8_t *tails; /* the tails of all rows, one after the other */
	size_t tail_bytes;
	size_t tails_capacity;
	uint64_t *tail_starts;	/* per row, the start of its tail; NULL while no row has a tail */
	size_t starts_capacity; /* rows */
	uint32_t stream;
	struct scope_rows *next; /* in the queue of waiting buffers */
} scope_rows;
typedef struct scope_drain scope_drain;
scope_drain *scope_drain_new(uint32_t streams, const uint32_t *row_sizes, size_t buffer_bytes, size_t limit);
int scope_drain_add_ring(scope_drain *drain, int ring_fd);
int scope_drain_start(scope_drain *drain, int niceness);
scope_rows *scope_drain_take(scope_drain *drain, int timeout_ms);
void scope_drain_wake(scope_drain *drain);
uint64_t scope_drain_unkept(const scope_drain *drain, uint32_t stream);
void scope_drain_stop(scope_drain *drain);
void scope_rows_free(scope_rows *rows);
void scope_drain_free(scope_drain *drain);

/* shim/demangle.c */
char *scope_demangle(const char *name);
void free(void *memory);

/* shim/text.c */
int64_t scope_texts(const scope_rows *rows, size_t field, int32_t *ends, uint8_t *data);
int64_t scope_paths(const scope_rows *rows, size_t field, int32_t *ends, uint8_t *data);
int64_t scope_text_lists(const scope_rows *rows, size_t field, int32_t *list_ends, int64_t *texts, int32_t *ends,
			 uint8_t *data);

/* shim/uprobe.c */
int scope_expect_uprobes(struct bpf_program *program);
int scope_try_uprobes(const char *path, uint64_t offset);
bool scope_has_atomics(void);
int scope_attach_uprobes(const struct bpf_program *program, const char *path, const uint64_t *offsets,
			 const uint64_t *cookies, const uint64_t *counters, uint32_t count, bool at_return);
struct bpf_link *scope_attach_uprobe(const struct bpf_program *program, const char *path, uint64_t offset,
				     uint64_t cookie, uint64_t counter, bool at_return);

/* shim/software_event.c */
struct bpf_link *scope_attach_software_event(const struct bpf_program *program, uint64_t config, uint64_t rate,
					     int cpu);

/* shim/unwind_table.c */
struct unwind_row;
typedef struct {
	uint64_t start;
	uint64_t end;
} scope_function;
int64_t scope_unwind_rows(const uint8_t *section, size_t size, uint64_t address, uint64_t base,
			  struct unwind_row **found);
int64_t scope_unwind_functions(const uint8_t *section, size_t size, uint64_t address, scope_function *found,
			       size_t room);

/* shim/mappings.c */
typedef struct {
	uint32_t major;
	uint32_t minor;
	uint64_t inode;	     /* these three as in /proc/PID/maps; 0: no file */
	uint64_t generation; /* of the inode, since its number may be reused */
} scope_file;
typedef enum { SCOPE_MAPPED, SCOPE_FORKED, SCOPE_ENDED } scope_news_kind;
typedef struct {
	uint64_t time_ns; /* CLOCK_BOOTTIME */
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	scope_file file;
	uint32_t kind;
	int32_t pid;
	int32_t parent; /* parent of a forked process */
	char path[228]; /* as seen by the process; empty if longer */
} scope_news;
typedef struct scope_mappings scope_mappings;
scope_mappings *scope_mappings_new(uint32_t cpus);
int scope_mappings_fd(const scope_mappings *mappings, uint32_t cpu);
int scope_mappings_watch_thread(scope_mappings *mappings, int tid);
int scope_mappings_watch_cgroup(scope_mappings *mappings, int fd);
int scope_mappings_watch_all(scope_mappings *mappings);
void scope_mappings_watch_nothing(scope_mappings *mappings);
void scope_mappings_know(scope_mappings *mappings, scope_file file);
void scope_mappings_follow(scope_mappings *mappings, uint32_t pid, bool followed);
uint32_t scope_mappings_read(scope_mappings *mappings, scope_news *found, uint32_t room, uint32_t *lost);
void scope_mappings_free(scope_mappings *mappings);

/* shim/held_file.c */
void *scope_hold_file(int fd);
void scope_let_go_file(void *page);
