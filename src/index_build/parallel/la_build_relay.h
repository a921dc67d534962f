/*-------------------------------------------------------------------------
 *
 * la_build_relay.h
 *	  has another process write pages
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_RELAY_H
#define LA_BUILD_RELAY_H

#include "storage/shm_mq.h"

#include "bulk_write/la_page_sink.h"

extern LaPageSink *la_relay_begin(shm_mq_handle *queue);
extern void la_relay_serve(shm_mq_handle *queue, LaPageSink *pages);
pg_noreturn extern void la_relay_lost(void);

#endif							/* LA_BUILD_RELAY_H */
