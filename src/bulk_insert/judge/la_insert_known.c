/*-------------------------------------------------------------------------
 *
 * la_insert_known.c
 *	  what a session knows of types and tables, until any of it changes
 *
 * To find out what a type or a table has called takes as long as inserting some rows:
 * expressions are stored as texts, partitions are listed in catalogs.  So each session keeps
 * the answers, of as many objects as there are places.
 *
 * Core tells every session what has changed in the catalogs, whoever has changed it or has
 * taken a change back, when the session is about to look at catalogs; relies on
 * AcceptInvalidationMessages() in inval.c.  A change of any function, type, operator, cast or
 * operator class ends all answers, but one of a type ends none about what operator classes
 * call: each new table is a type.  A change of a table ends that about its expressions.
 * Whatever adds a partition changes columns, too, and those are listened to as parts
 * of types.  Relies on heap_create_with_catalog() in heap.c, MergeAttributesIntoExisting() and
 * RemoveInheritance() in tablecmds.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_known.h"
#include "la_table_listener.h"

#define PLACES 1024				/* arbitrary: 24 kB */

typedef struct Known
{
	LaInsertSubject subject;
	Oid			object;			/* InvalidOid: nothing is known */
	uint64		news;			/* when it was found out */
	int			answer;
} Known;

/* One cache of each catalog that is looked at for more than a table's own rows. */
static const int caches[] = {
	TYPEOID, ATTNUM, PROCOID, OPEROID, CASTSOURCETARGET, CLAOID, AMOPOPID, AMPROCNUM
};

static Known known[PLACES + 1]; /* the last: of operator classes */
static uint64 changes = 0;		/* of what these caches are of */
static uint64 class_changes = 0;	/* all but those of types */
static uint64 table_changes = 0;	/* of any table */

static Known *
place_of(LaInsertSubject subject, Oid object)
{
	return subject == LA_INSERT_CLASSES ? &known[PLACES] :
		&known[murmurhash32(object ^ (uint32) subject << 30) % PLACES];
}

/*
 * Syscache callback.
 */
static void
hear_of_change(Datum argument, int cache, uint32 hash)
{
	changes++;
	if (cache != TYPEOID && cache != ATTNUM)
		class_changes++;
}

/*
 * LaTableListener.
 */
static void
hear_of_table(Oid table)
{
	Known	   *place = place_of(LA_INSERT_STORED, table);

	table_changes++;
	if (!OidIsValid(table))
	{
		changes++;
		class_changes++;
	}
	else if (place->object == table && place->subject == LA_INSERT_STORED)
		place->object = InvalidOid;
}

/*
 * The answer about an object, which look() finds out if it is not known.  What changes while
 * catalogs are looked at may have been seen as it was, or as it is: then it is not kept.  Of
 * any table, as hear_of_table() has no answer to end yet.
 */
int
la_insert_known(LaInsertSubject subject, Oid object, LaInsertLook look, void *arg)
{
	static bool listening = false;
	static LaTableListener listener = {.hear = hear_of_table};
	Known	   *place = place_of(subject, object);
	const uint64 *news = subject == LA_INSERT_CLASSES ? &class_changes : &changes;
	uint64		before;
	int			answer;

	if (unlikely(!listening))
	{
		listening = true;
		la_table_listen(&listener);
		for (int i = 0; i < lengthof(caches); i++)
			CacheRegisterSyscacheCallback(caches[i], hear_of_change, (Datum) 0);
	}
	AcceptInvalidationMessages();
	if (place->object == object && place->subject == subject &&
		place->news == *news)
		return place->answer;
	before = changes + table_changes;
	answer = look(arg);
	if (changes + table_changes == before)
		*place = (Known)
	{
		subject, object, *news, answer
	};
	return answer;
}
