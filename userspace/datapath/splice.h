/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel datapath: a body's bytes from a backend's socket to a client's by
 * the verdict program of bpf/splice.bpf.c. This module loads the program, keeps the
 * tables that it shares with the daemon, and holds the daemon's half of the gate.
 *
 * A body is in one of two hands. While the kernel owns it, the daemon reads nothing
 * from the backend and writes nothing to the client. The kernel gives it back by an
 * event (TAKEOVER) or ends it (END). Who gets it back calls splice_take() first.
 *
 * One splice_worker is used by one thread only; different ones run side by side.
 * The caller owns the memory of backends and clients (embed them in a connection). */
#ifndef KVSTEER_DATAPATH_SPLICE_H
#define KVSTEER_DATAPATH_SPLICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "datapath/conn.h"
#include "datapath/datapath.h"
#include "kvsteer/splice_abi.h"

#define SPLICE_LIMIT_DEFAULT (128u << 10)  /* bytes that may wait for a client */
#define SPLICE_BUFFER_BYTES (64 << 10)    /* SO_SNDBUF of clients and SO_RCVBUF of backends; the kernel doubles it */
#define SPLICE_DRAIN_POLL_MS 2
#define SPLICE_SWEEP_MS 1000

struct splice;        /* program and maps of the process */
struct splice_worker; /* one thread's share */

struct splice_opts {
	const char *pin_dir;  /* directory on a BPF file system, e.g. /sys/fs/bpf/kvsteer; NULL: not pinned */
	const char *instance; /* the pins lie in PIN_DIR/INSTANCE/v1/ */
	uint32_t max_flows, max_clients; /* connections; 0: the defaults */
	unsigned workers;     /* 1..SPLICE_WORKERS_MAX */
	const void *elf;      /* another build of the program (tests), NULL: the built-in one */
	size_t elf_len;
};

/* Loads and attaches the program. 0, or -errno with a sentence in why. A pin that is not
 * possible is no failure: splice_pin_path() is NULL then and `why` says why. */
int splice_open(struct splice **out, const struct splice_opts *opts, char *why, size_t why_len);
/* Unloads; all workers must be closed, all connections released. NULL is fine. */
void splice_close(struct splice *s);
/* Where the maps are pinned, or NULL. */
const char *splice_pin_path(const struct splice *s);
/* The kernel's counts. */
void splice_counts_read(const struct splice *s, struct splice_counts *out);
/* A row of the flow table (read only), NULL beyond its end. */
const struct splice_flow *splice_flow_row(const struct splice *s, uint32_t row);
uint32_t splice_flow_rows(const struct splice *s);
const char *splice_reason_name(unsigned reason);

/* A backend connection. Zeroed by the caller before the first use. */
struct splice_backend {
	struct splice_worker *w; /* NULL: not in the map */
	struct splice_flow *rec;
	uint32_t row;
	int fd;
	uint32_t generation;    /* of the last answer armed */
	bool armed;             /* an answer is armed, whoever owns it now */
	bool kernel;            /* the kernel owns it, as far as we know */
	bool suspect;           /* the sweep found it with something to do */
	uint64_t taken_bytes;   /* passed bytes that were read */
	uint64_t redirected_seen;
	struct splice_client *client; /* of the armed answer */
	struct list link;
};

/* A client connection. Zeroed by the caller before the first use. */
struct splice_client {
	struct splice_worker *w; /* NULL: not in the map */
	uint32_t row;
	int fd;
	uint64_t expected_bytes; /* bytes_acked + unacknowledged once all that was redirected has arrived */
	bool dirty;              /* redirected bytes may be on their way: no write before it is drained */
	bool draining;           /* on the worker's list */
	struct list link;
};

struct splice_worker_ops {
	/* The last byte of b's body went to the client's queue: splice_cancel() is due. */
	void (*end)(struct splice_backend *b, void *arg);
	/* Bytes were passed: splice_retake() (or splice_take()) is due, then read on. */
	void (*takeover)(struct splice_backend *b, unsigned reason, void *arg);
	/* All that was redirected to c is in its socket (splice_client_await). */
	void (*drained)(struct splice_client *c, void *arg);
};

struct splice_worker_stats {
	uint64_t arms, publishes, publishes_late; /* late: bytes had been passed meanwhile */
	uint64_t ends, takeovers[SPLICE_WHY_MAX];
	uint64_t sweep_rescued; /* flows that only the sweep found: 0 unless events were lost */
	uint64_t sweep_lost;    /* flows that the sweep found because a ring was full */
	uint64_t drain_polls;
};

int splice_worker_open(struct splice *s, unsigned id, const struct splice_worker_ops *ops, void *arg,
		       struct splice_worker **out);
void splice_worker_close(struct splice_worker *w);
/* Readable when there are events. */
int splice_worker_fd(const struct splice_worker *w);
/* Handles the ring's events. To be called before the other events of a batch: an END is in
 * the ring before the backend's FIN is in epoll. */
void splice_worker_events(struct splice_worker *w);
/* Looks at the clients that are waited for; returns how many are still due. Every SPLICE_DRAIN_POLL_MS. */
unsigned splice_worker_drains(struct splice_worker *w);
/* Finds flows whose event was lost. Every SPLICE_SWEEP_MS. */
void splice_worker_sweep(struct splice_worker *w);
/* Rows of released connections may be used again. At the end of a loop's turn, when their
 * descriptors are closed: a row that still holds a living socket must not be overwritten. */
void splice_worker_reap(struct splice_worker *w);
const struct splice_worker_stats *splice_worker_stats(const struct splice_worker *w);

/* Inserts a backend's socket: once, right after connect, before any request. `name` is for the
 * flow table. 0, or -errno: the connection is relayed (-EPROTONOSUPPORT no plain TCP, -ENOSPC
 * table full, or what the kernel said). The caller uses conn_ops_splice_backend from here. */
int splice_backend_add(struct splice_worker *w, struct splice_backend *b, int fd, const char *name);
/* Lets go of it, right before close(fd). Harmless if it was not added. */
void splice_backend_release(struct splice_backend *b);
/* Inserts a client's socket; at its first armed answer. Errors as above. From here every byte that
 * is sent must go through conn_ops_splice_client (or be told by splice_client_sent). */
int splice_client_add(struct splice_worker *w, struct splice_client *c, int fd);
/* Right before close(fd): no flow may be armed on it. Harmless if it was not added. */
void splice_client_release(struct splice_client *c);
void splice_client_sent(struct splice_client *c, size_t n);

/* Hands the rest of a body over. All that was read must be in the client's socket, `framing`
 * stand behind it, and the client be drained. 0: the kernel owns it (stop to look for EPOLLIN, keep
 * EPOLLRDHUP); -EAGAIN: armed, but bytes have been passed meanwhile: splice_take() and read on,
 * then splice_publish(). */
int splice_arm(struct splice_backend *b, struct splice_client *c, const struct http_framing *framing,
	       uint32_t limit_bytes);
/* The same again after a takeover. */
int splice_publish(struct splice_backend *b, const struct http_framing *framing);
/* The stream is the daemon's again: where the framing stands, and returns the bytes that were
 * redirected since the last call. If not 0, the client must be drained before it is written to. */
uint64_t splice_take(struct splice_backend *b, struct http_framing *framing);
/* Ends what was armed: the stream is taken back by force if the kernel has it. No packet is under
 * way in the kernel when it returns. Due at every end of an armed answer, whoever moved its last byte,
 * before the connection serves another. framing is as splice_take() has it if the kernel had the
 * stream, else untouched; state HTTP_FS_END: it had ended. */
uint64_t splice_cancel(struct splice_backend *b, struct http_framing *framing);
/* No unread bytes, nothing cut off: the connection can serve another request. */
bool splice_backend_clean(const struct splice_backend *b);
/* The stream of b was redirected to its end (an END may still be in the ring). Waits until no
 * packet is half way through the verdict: to be asked at EPOLLRDHUP. */
bool splice_backend_ended(struct splice_backend *b);
/* Bytes were passed and not read yet, or are on their way to the socket's queue. */
bool splice_backend_unread(const struct splice_backend *b);

/* In whose hands a body is. */
enum splice_hand {
	SPLICE_HAND_DAEMON = 0, /* read on, with EPOLLIN */
	SPLICE_HAND_DRAIN,  /* the daemon's once the client is drained (splice_client_await): read nothing before */
	SPLICE_HAND_KERNEL, /* look for EPOLLRDHUP of the backend only */
};
/* Both steps on a flow: offers its rest (f->out is empty; armed the first time, published again
 * later), and takes it back with its framing. Both count what the kernel moved in f->sent_bytes. */
enum splice_hand splice_offer(struct splice_backend *b, struct splice_client *c, struct flow *f, uint32_t limit_bytes);
enum splice_hand splice_retake(struct splice_backend *b, struct flow *f);

/* All that was redirected is in the client's socket, so that the daemon may write, shut down, close. */
bool splice_client_drained(struct splice_client *c);
/* As above, of a connection that may be reset already: true only if all of it had come into the socket. */
bool splice_client_complete(struct splice_client *c);
/* ops->drained() will be called from splice_worker_drains(). */
void splice_client_await(struct splice_client *c);
void splice_client_forget(struct splice_client *c);

/* priv is the struct splice_backend: counts what is read; a FIN is seen only behind the last byte. */
extern const struct conn_ops conn_ops_splice_backend;
/* priv is the struct splice_client: counts what is written, and takes nothing (-EAGAIN) before it is drained. */
extern const struct conn_ops conn_ops_splice_client;

/* ---- probes ---- */
enum splice_probe_result { SPLICE_PROBE_OK, SPLICE_PROBE_WARN, SPLICE_PROBE_FAIL };
struct splice_probe {
	const char *name;
	enum splice_probe_result result;
	char detail[200]; /* what was found */
	const char *help; /* what a failure means and what to do, NULL if ok */
};
#define SPLICE_PROBES_MAX 12
/* Fills p[]; returns how many. Changes nothing on the host. */
unsigned splice_probe_all(struct splice_probe *p, const char *pin_dir);

/* The hazards that can be tried on a loopback pair, with the program in s. 0, or -errno
 * with a sentence in why: splice is not safe on this kernel. Takes less than a second. */
int splice_selftest(struct splice *s, char *why, size_t why_len);
#endif
