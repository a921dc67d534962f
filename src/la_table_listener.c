/*-------------------------------------------------------------------------
 *
 * la_table_listener.c
 *	  who wants to hear of changed tables
 *
 * Core has room for ten listeners of all libraries together, and ends the session where there is
 * an eleventh.  So the rooms have one.  Relies on CacheRegisterRelcacheCallback() in inval.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/inval.h"

#include "la_table_listener.h"

static LaTableListener *first = NULL;

/*
 * Relcache callback.
 */
static void
tell(Datum argument, Oid table)
{
	for (LaTableListener *listener = first; listener != NULL; listener = listener->next)
		listener->hear(table);
}

/*
 * From now on this one is told; not to be called twice for it.
 */
void
la_table_listen(LaTableListener *listener)
{
	if (first == NULL)
		CacheRegisterRelcacheCallback(tell, (Datum) 0);
	listener->next = first;
	first = listener;
}
