/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_DELAYQ_H
#define BLOCK_DELAYQ_H
/* Things to do at a given time, done by one thread: for filters that make a device slow. */

#include <stdbool.h>
#include <stdint.h>

struct delayq;

struct delay_item {
	void (*di_fn)(struct delay_item *item); /* may free the item */
	uint64_t di_deadline_ns;
	uint64_t di_order; /* owned by the queue */
};

/*
 * clock_virtual: the queue's clock stands still while nothing is due and jumps to the next deadline
 * instead of waiting for it. ERR_PTR on failure.
 */
struct delayq *delayq_create(bool clock_virtual);
/* The queue's clock: now_ns(), or virtual time that starts at 0. */
uint64_t delayq_now(struct delayq *q);
/* Call item->di_fn at di_deadline_ns or soon after, in the order of deadlines. 0 or -ENOMEM. */
int delayq_add(struct delayq *q, struct delay_item *item);
/* The queue is empty. */
void delayq_destroy(struct delayq *q);

#endif
