/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Intrusive doubly linked list, in the manner of the kernel's. */
#ifndef KVSTEER_BASE_LIST_H
#define KVSTEER_BASE_LIST_H
#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define list_entry(ptr, type, member) container_of(ptr, type, member)
/* Safe against removal of the current entry. */
#define list_for_each_safe(pos, tmp, head) \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head); (pos) = (tmp), (tmp) = (pos)->next)

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}
static inline void list_add(struct list *head, struct list *n) /* at the front */
{
	n->next = head->next;
	n->prev = head;
	head->next->prev = n;
	head->next = n;
}
static inline void list_add_tail(struct list *head, struct list *n)
{
	list_add(head->prev, n);
}
static inline void list_del(struct list *n) /* leaves n as an empty list: a second call is harmless */
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}
#endif
