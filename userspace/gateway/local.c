/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the gateway answers itself: the models of all pools, health. */
#include <stdlib.h>
#include <yyjson.h>

#include "gateway/exchange.h"
#include "gateway/internal.h"

#define MODELS "/v1/models"

/* Adds one model; its names are the configuration's. */
static yyjson_mut_val *model_object(yyjson_mut_doc *doc, const char *id, const char *parent, const char *pool)
{
	yyjson_mut_val *m = yyjson_mut_obj(doc);

	yyjson_mut_obj_add_str(doc, m, "id", id);
	yyjson_mut_obj_add_str(doc, m, "object", "model");
	yyjson_mut_obj_add_int(doc, m, "created", 0);
	yyjson_mut_obj_add_str(doc, m, "owned_by", "kvsteer");
	if (parent)
		yyjson_mut_obj_add_str(doc, m, "parent", parent);
	else
		yyjson_mut_obj_add_null(doc, m, "parent");
	yyjson_mut_obj_add_str(doc, m, "pool", pool);
	return m;
}

/* All models (only NULL), or the one named `only`. Returns the object, NULL if there is no such model. */
static yyjson_mut_val *models(yyjson_mut_doc *doc, const struct fleet *f, const char *only)
{
	yyjson_mut_val *list = yyjson_mut_arr(doc), *root, *found = NULL;

	for (unsigned i = 0; i < f->npools; i++) {
		const struct config_pool *p = f->pools[i].cfg;
		const char *base = p->models.n ? p->models.v[0] : NULL;

		for (unsigned k = 0; k < p->models.n + p->adapters.n + p->n_aliases; k++) {
			bool adapter = k >= p->models.n && k < p->models.n + p->adapters.n;
			unsigned alias = k - p->models.n - p->adapters.n;
			const char *id = k < p->models.n ? p->models.v[k] :
					 adapter	 ? p->adapters.v[k - p->models.n] :
							   p->aliases[alias].alias;
			const char *parent = k < p->models.n ? NULL : adapter ? base : p->aliases[alias].model;

			if (only && strcmp(only, id))
				continue;
			found = model_object(doc, id, parent, p->name);
			if (only)
				return found;
			yyjson_mut_arr_append(list, found);
		}
	}
	if (only)
		return NULL;
	root = yyjson_mut_obj(doc);
	yyjson_mut_obj_add_str(doc, root, "object", "list");
	yyjson_mut_obj_add_val(doc, root, "data", list);
	return root;
}

/* Where load balancers and SageMaker look (GET /ping): whether a request would find a backend. A
 * configuration that lists the path in allow_paths asks the backends instead. */
static bool health(struct exchange *x, const char *path, uint32_t len)
{
	if (!(len == 7 && !memcmp(path, "/health", 7)) && !(len == 5 && !memcmp(path, "/ping", 5)))
		return false;
	if ((x->method != HTTP_M_GET && x->method != HTTP_M_HEAD) || config_path_allowed(x->fleet->cfg, path, len))
		return false;
	if (gateway_ready(x->w->gw))
		exchange_reply(x, 200, "content-type: text/plain\r\n", "ready\n", 6);
	else if (x->w->draining || gateway_draining(x->w->gw))
		exchange_fail(x, REASON_DRAINING, "the gateway is shutting down");
	else
		exchange_fail(x, REASON_NO_BACKEND, "no backend can take requests");
	return true;
}

bool exchange_local(struct exchange *x, const char *path, uint32_t len)
{
	const uint32_t n = sizeof(MODELS) - 1;
	char name[PROMPT_MODEL_MAX + 1] = "";
	yyjson_mut_doc *doc;
	yyjson_mut_val *root;
	size_t size;
	char *text;

	if (health(x, path, len))
		return true;
	if (len < n || memcmp(path, MODELS, n) || (len > n && path[n] != '/'))
		return false;
	x->allow = "GET, HEAD, OPTIONS";
	if (x->method == HTTP_M_OPTIONS) {
		exchange_reply(x, 204, "allow: GET, HEAD, OPTIONS\r\n", "", 0);
		return true;
	}
	if (x->method != HTTP_M_GET && x->method != HTTP_M_HEAD) {
		exchange_fail(x, REASON_METHOD_NOT_ALLOWED, "this path takes GET");
		return true;
	}
	if (len > n + 1) { /* a model's name may itself hold slashes */
		if (len - n - 1 > PROMPT_MODEL_MAX) {
			exchange_fail(x, REASON_MODEL_NOT_FOUND, "The model does not exist.");
			return true;
		}
		memcpy(name, path + n + 1, len - n - 1);
		name[len - n - 1] = 0;
	}
	doc = yyjson_mut_doc_new(NULL);
	root = doc ? models(doc, x->fleet, len > n + 1 ? name : NULL) : NULL;
	if (!root) {
		yyjson_mut_doc_free(doc);
		exchange_fail(x, REASON_MODEL_NOT_FOUND, "The model does not exist.");
		return true;
	}
	yyjson_mut_doc_set_root(doc, root);
	text = yyjson_mut_write(doc, 0, &size);
	if (text)
		exchange_reply(x, 200, "content-type: application/json\r\n", text, size);
	else
		exchange_fail(x, REASON_OVERLOADED, "out of memory");
	free(text);
	yyjson_mut_doc_free(doc);
	return true;
}
