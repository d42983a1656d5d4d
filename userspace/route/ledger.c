/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See ledger.h. Slots change hands by one compare-and-swap of {state, generation}; free
 * lists are Treiber stacks with a tag against ABA, one a worker, so that the
 * common take and release touch no other worker's cache lines. The lists are a
 * hint where to look; the slot's own word alone says whether it is free. */
#include "route/ledger.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t word_of(uint32_t state, uint32_t generation)
{
	struct ledger_slot s;

	s.state = state;
	s.generation = generation;
	return s.word;
}

static uint32_t state_of(uint64_t word)
{
	struct ledger_slot s;

	s.word = word;
	return s.state;
}

static uint32_t generation_of(uint64_t word)
{
	struct ledger_slot s;

	s.word = word;
	return s.generation;
}

static uint64_t word_load(const struct ledger_slot *s)
{
	return __atomic_load_n(&s->word, __ATOMIC_ACQUIRE);
}

static bool word_cas(struct ledger_slot *s, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(&s->word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* ---- free lists --------------------------------------------------------- */

/* The list that a slot returns to, whoever took it. */
static uint32_t list_home(const struct ledger *l, uint32_t slot)
{
	return (uint32_t)((uint64_t)slot * l->hdr->workers / l->hdr->slots);
}

static void list_push(struct ledger *l, uint32_t slot)
{
	struct ledger_slot *s = &l->slots[slot];
	uint64_t *head = (uint64_t *)&l->hdr->free_head[list_home(l, slot)];
	uint64_t old = __atomic_load_n(head, __ATOMIC_ACQUIRE), new;

	if (__atomic_exchange_n(&s->listed, 1, __ATOMIC_ACQ_REL))
		return;
	do {
		__atomic_store_n(&s->next_free, (uint32_t)old, __ATOMIC_RELAXED);
		new = ((old >> 32) + 1) << 32 | slot;
	} while (!__atomic_compare_exchange_n(head, &old, new, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

static uint32_t list_pop(struct ledger *l, uint32_t list)
{
	uint64_t *head = (uint64_t *)&l->hdr->free_head[list];
	uint64_t old = __atomic_load_n(head, __ATOMIC_ACQUIRE), new;
	uint32_t slot;

	do {
		slot = (uint32_t)old;
		if (slot == LEDGER_NO_SLOT)
			return LEDGER_NO_SLOT;
		/* May read a link that is stale by now: then the tag differs and the exchange fails. */
		new = ((old >> 32) + 1) << 32 | __atomic_load_n(&l->slots[slot].next_free, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(head, &old, new, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	__atomic_store_n(&l->slots[slot].listed, 0, __ATOMIC_RELEASE);
	return slot;
}

static uint32_t list_pop_any(struct ledger *l, uint32_t first)
{
	uint32_t i, slot;

	for (i = 0; i < l->hdr->workers; i++) {
		slot = list_pop(l, (first + i) % l->hdr->workers);
		if (slot != LEDGER_NO_SLOT)
			return slot;
	}
	return LEDGER_NO_SLOT;
}

static void lists_rebuild(struct ledger *l)
{
	uint32_t i;

	for (i = 0; i < LEDGER_MAX_WORKERS; i++)
		l->hdr->free_head[i] = LEDGER_NO_SLOT;
	for (i = l->hdr->slots; i-- > 0;) {
		l->slots[i].listed = 0;
		if (state_of(l->slots[i].word) == LEDGER_FREE)
			list_push(l, i);
	}
}

/* ---- counters ------------------------------------------------------------ */

static int row_raise(struct ledger *l, uint32_t row, uint32_t limit)
{
	uint32_t *n, cur;

	if (row == LEDGER_NO_ROW)
		return 0;
	n = &l->rows[row].in_flight;
	cur = __atomic_load_n(n, __ATOMIC_RELAXED);
	do {
		if (cur >= limit)
			return -EAGAIN;
	} while (!__atomic_compare_exchange_n(n, &cur, cur + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return 0;
}

static void row_lower(struct ledger *l, uint32_t row)
{
	if (row != LEDGER_NO_ROW)
		__atomic_fetch_sub(&l->rows[row].in_flight, 1, __ATOMIC_ACQ_REL);
}

/* ---- set-up --------------------------------------------------------------- */

size_t ledger_bytes(uint32_t slots)
{
	return sizeof(struct ledger_header) + (size_t)slots * sizeof(struct ledger_slot);
}

static void ledger_bind(struct ledger *l, void *mem, struct backend_row *rows)
{
	memset(l, 0, sizeof(*l));
	l->hdr = mem;
	l->slots = (struct ledger_slot *)((char *)mem + sizeof(struct ledger_header));
	l->rows = rows;
	pthread_mutex_init(&l->row_lock, NULL);
}

int ledger_init(struct ledger *l, void *mem, uint32_t slots, uint32_t workers, struct backend_row *rows)
{
	uint32_t i;

	if (!slots || slots == LEDGER_NO_SLOT || !workers || workers > LEDGER_MAX_WORKERS)
		return -EINVAL;
	ledger_bind(l, mem, rows);
	memset(mem, 0, ledger_bytes(slots));
	memset(rows, 0, BACKENDS_MAX_ROWS * sizeof(*rows));
	l->hdr->schema = LEDGER_SCHEMA;
	l->hdr->slots = slots;
	l->hdr->workers = workers;
	for (i = 0; i < slots; i++) {
		l->slots[i].row = LEDGER_NO_ROW;
		l->slots[i].client_fd = l->slots[i].upstream_fd = -1;
	}
	lists_rebuild(l);
	/* The magic last: a half-made ledger is not adopted. */
	__atomic_store_n(&l->hdr->magic, LEDGER_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

int ledger_attach(struct ledger *l, void *mem, size_t bytes, struct backend_row *rows)
{
	const struct ledger_header *h = mem;

	if (bytes < sizeof(*h))
		return -EINVAL;
	if (h->magic != LEDGER_MAGIC || h->schema != LEDGER_SCHEMA || !h->slots || !h->workers ||
	    h->workers > LEDGER_MAX_WORKERS)
		return -EPROTO;
	if (ledger_bytes(h->slots) > bytes)
		return -EINVAL;
	ledger_bind(l, mem, rows);
	return 0;
}

int ledger_create(struct ledger *l, uint32_t slots, uint32_t workers)
{
	size_t rows_bytes = BACKENDS_MAX_ROWS * sizeof(struct backend_row);
	size_t bytes = rows_bytes + ledger_bytes(slots);
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (mem == MAP_FAILED)
		return -errno;
	rc = ledger_init(l, (char *)mem + rows_bytes, slots, workers, mem);
	if (rc < 0) {
		munmap(mem, bytes);
		return rc;
	}
	l->own = mem;
	l->own_bytes = bytes;
	return 0;
}

void ledger_destroy(struct ledger *l)
{
	pthread_mutex_destroy(&l->row_lock);
	if (l->own)
		munmap(l->own, l->own_bytes);
	memset(l, 0, sizeof(*l));
}

/* ---- slots ---------------------------------------------------------------- */

int ledger_take(struct ledger *l, uint32_t worker, uint32_t row, uint32_t limit, uint64_t now_ns,
		struct ledger_ref *ref)
{
	uint32_t state = row == LEDGER_NO_ROW ? LEDGER_QUEUED : LEDGER_ACTIVE;
	struct ledger_slot *s;
	uint32_t slot, generation;
	uint64_t word;
	int rc;

	*ref = LEDGER_REF_NONE;
	if (row != LEDGER_NO_ROW && row >= BACKENDS_MAX_ROWS)
		return -EINVAL;
	rc = row_raise(l, row, limit);
	if (rc < 0)
		return rc;
	for (;;) {
		slot = list_pop_any(l, worker % l->hdr->workers);
		if (slot == LEDGER_NO_SLOT) {
			row_lower(l, row);
			__atomic_fetch_add(&l->hdr->exhausted, 1, __ATOMIC_RELAXED);
			return -ENOSPC;
		}
		s = &l->slots[slot];
		word = word_load(s);
		if (state_of(word) != LEDGER_FREE)
			continue;
		/* Before the slot is live, so that an adopter never sees a live slot with an old row. */
		__atomic_store_n(&s->row, row, __ATOMIC_RELAXED);
		s->owner = worker;
		s->client_fd = s->upstream_fd = -1;
		s->started_ns = now_ns;
		s->cookie = 0;
		generation = generation_of(word) + 1;
		if (word_cas(s, word, word_of(state, generation)))
			break;
	}
	ref->slot = slot;
	ref->generation = generation;
	return 0;
}

/* The slot's word if `ref` names it live, else 0. */
static uint64_t ref_word(const struct ledger *l, struct ledger_ref ref)
{
	uint64_t word;

	if (ref.slot >= l->hdr->slots)
		return 0;
	word = word_load(&l->slots[ref.slot]);
	if (generation_of(word) != ref.generation || state_of(word) == LEDGER_FREE)
		return 0;
	return word;
}

int ledger_move(struct ledger *l, struct ledger_ref ref, uint32_t row, uint32_t limit)
{
	uint64_t word = ref_word(l, ref);
	struct ledger_slot *s;
	uint32_t old;
	int rc;

	if (!word || state_of(word) == LEDGER_KERNEL)
		return -ESTALE;
	if (row != LEDGER_NO_ROW && row >= BACKENDS_MAX_ROWS)
		return -EINVAL;
	s = &l->slots[ref.slot];
	old = __atomic_load_n(&s->row, __ATOMIC_RELAXED);
	rc = row_raise(l, row, limit);
	if (rc < 0)
		return rc;
	__atomic_store_n(&s->row, row, __ATOMIC_RELEASE);
	__atomic_store_n(&s->word, word_of(row == LEDGER_NO_ROW ? LEDGER_QUEUED : LEDGER_ACTIVE, ref.generation),
			 __ATOMIC_RELEASE);
	row_lower(l, old);
	return 0;
}

bool ledger_release(struct ledger *l, struct ledger_ref ref)
{
	uint64_t word = ref_word(l, ref);
	struct ledger_slot *s;
	uint32_t row;

	while (word) {
		s = &l->slots[ref.slot];
		row = __atomic_load_n(&s->row, __ATOMIC_RELAXED);
		if (word_cas(s, word, word_of(LEDGER_FREE, ref.generation))) {
			row_lower(l, row);
			list_push(l, ref.slot);
			return true;
		}
		word = ref_word(l, ref); /* lost to a change of state, or to another release */
	}
	__atomic_fetch_add(&l->hdr->refused_releases, 1, __ATOMIC_RELAXED);
	return false;
}

bool ledger_set_kernel(struct ledger *l, struct ledger_ref ref, bool kernel)
{
	uint64_t from = word_of(kernel ? LEDGER_ACTIVE : LEDGER_KERNEL, ref.generation);
	uint64_t to = word_of(kernel ? LEDGER_KERNEL : LEDGER_ACTIVE, ref.generation);

	if (ref.slot >= l->hdr->slots)
		return false;
	return word_cas(&l->slots[ref.slot], from, to) || word_load(&l->slots[ref.slot]) == to;
}

void ledger_set_fds(struct ledger *l, struct ledger_ref ref, int client_fd, int upstream_fd)
{
	if (!ref_word(l, ref))
		return;
	l->slots[ref.slot].client_fd = client_fd;
	l->slots[ref.slot].upstream_fd = upstream_fd;
}

uint32_t ledger_in_flight(const struct ledger *l, uint32_t row)
{
	return row < BACKENDS_MAX_ROWS ? __atomic_load_n(&l->rows[row].in_flight, __ATOMIC_ACQUIRE) : 0;
}

uint32_t ledger_count_live(const struct ledger *l, uint32_t row)
{
	uint32_t i, n = 0;

	for (i = 0; i < l->hdr->slots; i++)
		if (state_of(word_load(&l->slots[i])) != LEDGER_FREE &&
		    __atomic_load_n(&l->slots[i].row, __ATOMIC_RELAXED) == row)
			n++;
	return n;
}

void ledger_count_rows(const struct ledger *l, uint32_t *live)
{
	uint32_t i, row;

	for (i = 0; i < l->hdr->slots; i++) {
		if (state_of(word_load(&l->slots[i])) == LEDGER_FREE)
			continue;
		row = __atomic_load_n(&l->slots[i].row, __ATOMIC_RELAXED);
		if (row < BACKENDS_MAX_ROWS)
			live[row]++;
	}
}

uint32_t ledger_count_all(const struct ledger *l)
{
	uint32_t i, n = 0;

	for (i = 0; i < l->hdr->slots; i++)
		n += state_of(word_load(&l->slots[i])) != LEDGER_FREE;
	return n;
}

uint64_t ledger_refused_releases(const struct ledger *l)
{
	return __atomic_load_n(&l->hdr->refused_releases, __ATOMIC_RELAXED);
}

uint32_t ledger_recover(struct ledger *l, bool (*keep)(void *ctx, uint32_t slot, const struct ledger_slot *s),
			void *ctx)
{
	uint32_t count[BACKENDS_MAX_ROWS] = { 0 };
	uint32_t i, kept = 0;

	for (i = 0; i < l->hdr->slots; i++) {
		struct ledger_slot *s = &l->slots[i];
		uint64_t word = word_load(s);

		if (state_of(word) == LEDGER_FREE)
			continue;
		if (keep ? !keep(ctx, i, s) : state_of(word) != LEDGER_KERNEL) {
			word_cas(s, word, word_of(LEDGER_FREE, generation_of(word)));
			continue;
		}
		kept++;
		if (s->row < BACKENDS_MAX_ROWS)
			count[s->row]++;
	}
	for (i = 0; i < BACKENDS_MAX_ROWS; i++) {
		if (l->rows[i].in_flight == count[i])
			continue;
		__atomic_store_n(&l->rows[i].in_flight, count[i], __ATOMIC_RELEASE);
		l->hdr->repaired++;
	}
	lists_rebuild(l);
	return kept;
}

/* ---- rows ------------------------------------------------------------------- */

static bool text_fits(const char *s, size_t size)
{
	return s && *s && strnlen(s, size) < size;
}

int ledger_row_claim(struct ledger *l, const char *pool, const char *name, const char *address)
{
	struct backend_row *r;
	int i, found = -ENOSPC;

	if (!text_fits(pool, BACKEND_POOL_BYTES) || !text_fits(name, BACKEND_NAME_BYTES))
		return -EINVAL;
	pthread_mutex_lock(&l->row_lock);
	for (i = 0; i < BACKENDS_MAX_ROWS; i++) {
		r = &l->rows[i];
		if (r->state == BACKEND_FREE) {
			/* A freed row may still be counted by a slot that a kernel program holds. */
			if (found < 0 && !ledger_in_flight(l, (uint32_t)i))
				found = i;
		} else if (!strcmp(r->pool, pool) && !strcmp(r->name, name)) {
			found = i;
			break;
		}
	}
	if (found >= 0) {
		r = &l->rows[found];
		if (r->state == BACKEND_FREE) {
			uint32_t epoch = r->epoch;

			memset(r, 0, offsetof(struct backend_row, in_flight));
			memset(&r->waiting, 0, sizeof(*r) - offsetof(struct backend_row, waiting));
			memcpy(r->pool, pool, strlen(pool));
			memcpy(r->name, name, strlen(name));
			r->epoch = epoch + 1;
			r->waiting = r->running = r->kv_permille = BACKEND_UNKNOWN;
			r->speed_permille = 1000;
		}
		memset(r->address, 0, sizeof(r->address));
		if (address)
			memcpy(r->address, address, strnlen(address, sizeof(r->address) - 1));
		r->state = BACKEND_READY;
	}
	pthread_mutex_unlock(&l->row_lock);
	return found;
}

int ledger_row_free(struct ledger *l, uint32_t row)
{
	int rc = -EBUSY;

	if (row >= BACKENDS_MAX_ROWS)
		return -EINVAL;
	pthread_mutex_lock(&l->row_lock);
	if (!ledger_in_flight(l, row)) {
		l->rows[row].state = BACKEND_FREE;
		rc = 0;
	}
	pthread_mutex_unlock(&l->row_lock);
	return rc;
}
