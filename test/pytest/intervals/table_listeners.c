/*-------------------------------------------------------------------------
 *
 * table_listeners.c
 *	  a library that leaves others one listener of changed tables: core has
 *	  room for ten (MAX_RELCACHE_CALLBACKS), and has two of its own
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/inval.h"

PG_MODULE_MAGIC;

static void
ignore(Datum argument, Oid table)
{
}

void		_PG_init(void);

void
_PG_init(void)
{
	for (int i = 0; i < 7; i++)
		CacheRegisterRelcacheCallback(ignore, (Datum) 0);
}
