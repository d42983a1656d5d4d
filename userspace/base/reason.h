/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Why a request did not end well: one vocabulary for the error object's
 * `code`, the metric's `reason` label and the access log. */
#ifndef KVSTEER_BASE_REASON_H
#define KVSTEER_BASE_REASON_H

/* X(NAME, "name", HTTP status; 0 = only in log and metric) */
#define REASON_TABLE(X)                                        \
	X(NONE, "-", 0)                                        \
	X(BAD_REQUEST, "bad_request", 400)                     \
	X(UNAUTHORIZED, "unauthorized", 401)                   \
	X(FORBIDDEN, "forbidden", 403)                         \
	X(PATH_NOT_ALLOWED, "path_not_allowed", 403)           \
	X(MODEL_NOT_FOUND, "model_not_found", 404)             \
	X(METHOD_NOT_ALLOWED, "method_not_allowed", 405)       \
	X(REQUEST_TIMEOUT, "request_timeout", 408)             \
	X(BODY_TOO_LARGE, "body_too_large", 413)               \
	X(URI_TOO_LONG, "uri_too_long", 414)                   \
	X(EXPECTATION_FAILED, "expectation_failed", 417)       \
	X(QUEUE_FULL, "queue_full", 429)                       \
	X(QUEUE_TIMEOUT, "queue_timeout", 429)                 \
	X(RATE_LIMITED, "rate_limited", 429)                   \
	X(HEADER_TOO_LARGE, "header_too_large", 431)           \
	X(NOT_IMPLEMENTED, "not_implemented", 501)             \
	X(CONNECT_FAILED, "connect_failed", 502)               \
	X(BACKEND_RESET, "backend_reset", 502)                 \
	X(BACKEND_BAD_RESPONSE, "backend_bad_response", 502)   \
	X(NO_BACKEND, "no_backend", 503)                       \
	X(BACKEND_BUSY, "backend_busy", 503)                   \
	X(DRAINING, "draining", 503)                           \
	X(OVERLOADED, "overloaded", 503)                       \
	X(FIRST_TOKEN_TIMEOUT, "first_token_timeout", 504)     \
	X(HTTP_VERSION, "http_version", 505)                   \
	X(CLIENT_GONE, "client_gone", 0)                       \
	X(STREAM_CUT, "stream_cut", 0)                         \
	X(STREAM_IDLE, "stream_idle", 0)

enum reason {
#define X(id, name, status) REASON_##id,
	REASON_TABLE(X)
#undef X
		REASON_COUNT
};

/* "bad_request" etc.; "-" for REASON_NONE. */
const char *reason_name(enum reason r);
/* HTTP status of the answer, 0 where no answer can be given any more. */
int reason_status(enum reason r);
/* The reason named `name`; REASON_BAD_REQUEST if there is none. */
enum reason reason_from_name(const char *name);
#endif
