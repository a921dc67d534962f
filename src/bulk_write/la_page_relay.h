/*-------------------------------------------------------------------------
 *
 * la_page_relay.h
 *	  has another process write pages
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PAGE_RELAY_H
#define LA_PAGE_RELAY_H

#include "storage/bufpage.h"
#include "storage/shm_mq.h"
#include "utils/rel.h"

extern void la_relay_put(shm_mq_handle *queue, BlockNumber block, Page page);
extern void la_relay_end(shm_mq_handle *queue);
extern void la_relay_serve(shm_mq_handle *queue, Relation rel,
						   int step_blocks, int batch_blocks);
pg_noreturn extern void la_relay_lost(void);

#endif							/* LA_PAGE_RELAY_H */
