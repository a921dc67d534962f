/*-------------------------------------------------------------------------
 *
 * la_join_page.h
 *	  the rows behind that of a scan, on the same page, and the pages that their subplans want
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_PAGE_H
#define LA_JOIN_PAGE_H

#include "attach/la_registry.h"

typedef struct LaJoinPage LaJoinPage;

extern LaJoinPage *la_join_page_create(ScanState *scan, LaNode *node);
extern bool la_join_page_wake(LaJoinPage *page);
extern bool la_join_page_is_awake(const LaJoinPage *page);
extern bool la_join_page_row(LaJoinPage *page);
extern void la_join_page_end(LaJoinPage *page);

#endif							/* LA_JOIN_PAGE_H */
