/*-------------------------------------------------------------------------
 *
 * la_heap_pin.h
 *	  the pin of the heap AM on the page of the current row
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_HEAP_PIN_H
#define LA_HEAP_PIN_H

#include "access/genam.h"
#include "access/relscan.h"
#include "storage/buf.h"

extern void la_heap_pin_take(IndexFetchTableData *heap_fetch, Buffer buffer);
extern void la_heap_pin_release(IndexFetchTableData *heap_fetch);
extern bool la_heap_pin_as_expected(IndexFetchTableData *heap_fetch,
									IndexScanDesc scan, bool has_entry);

#endif							/* LA_HEAP_PIN_H */
