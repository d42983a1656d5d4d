/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What kvsteerctl shows, as JSON. Each returns text to free(), or NULL without memory. */
#ifndef KVSTEER_CONTROL_STATUS_H
#define KVSTEER_CONTROL_STATUS_H
#include <stddef.h>

#define STATUS_FLOWS_MAX 10000
#define STATUS_PREFIXES_MAX 20

struct daemon;
struct gateway_explain;
struct view;

char *status_json(const struct view *v, size_t *len);
char *status_pools_json(const struct view *v, size_t *len);
char *status_backends_json(const struct view *v, size_t *len);
/* Requests under way, at most STATUS_FLOWS_MAX; the others are counted as "omitted". */
char *status_flows_json(const struct view *v, size_t *len);
/* The STATUS_PREFIXES_MAX hottest prefixes of each pool. */
char *status_prefixes_json(const struct view *v, size_t *len);
char *status_explain_json(const struct gateway_explain *e, size_t *len);
/* After a reload: what the new file says and the process does not do. */
char *status_reload_json(const struct daemon *d, size_t *len);
/* What an operator would look at first, each with ok, warn or fail. */
char *status_doctor_json(const struct view *v, const struct daemon *d, size_t *len);
/* The read-only page, HTML without scripts or outside assets. */
char *status_page_html(const struct view *v, size_t *len);
#endif
