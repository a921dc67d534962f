/*-------------------------------------------------------------------------
 *
 * access_watch.c
 *	  a library that tells which objects are made and altered, as those do
 *	  that decide about access (object_access_hook)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "fmgr.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;

static object_access_hook_type next_hook = NULL;

static void
tell(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
	 void *arg)
{
	const char *name = NULL;

	if (next_hook)
		next_hook(access, class_id, object_id, sub_id, arg);
	/* What is made is visible to catalog lookups after the command only. */
	if (class_id == InheritsRelationId)
		name = get_rel_name(((ObjectAccessPostAlter *) arg)->auxiliary_id);
	if (access == OAT_POST_CREATE)
		ereport(NOTICE,
				(errmsg("made %u %d internal %d", class_id, sub_id,
						((ObjectAccessPostCreate *) arg)->is_internal)));
	else if (access == OAT_POST_ALTER)
		ereport(NOTICE,
				(errmsg("altered %u %d of %s internal %d", class_id, sub_id,
						name ? name : "-",
						((ObjectAccessPostAlter *) arg)->is_internal)));
}

void		_PG_init(void);

void
_PG_init(void)
{
	next_hook = object_access_hook;
	object_access_hook = tell;
}
