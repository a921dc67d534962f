/*-------------------------------------------------------------------------
 *
 * la_insert_finding.c
 *	  what was found out when something was looked at, kept for the next time
 *
 * To look at a type or an expression takes as long as inserting some rows: expressions
 * are stored as texts, and constraints of domains are searched for in their catalog.  So
 * each session keeps what it has found out, until any of the catalogs changes that it
 * looks at (la_insert_change.c).
 *
 * A finding is about one type or one expression, and lists the types that this names; what these
 * lead to is found under their names.  An expression is kept with its text, and the
 * finding holds for no other text: which expressions a table or trigger has, the caller
 * knows, be it from an older copy of its own.  Nothing depends on the user, the search path
 * or a setting: expressions are stored with OIDs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "bulk_insert/judge/la_insert_change.h"
#include "bulk_insert/judge/la_insert_finding.h"

/*
 * Bytes of findings after which all are forgotten.  Arbitrary: there is room for a thousand
 * domains.
 */
#define MOST_BYTES (1024 * 1024)

/* Bytes of a text that is kept, at most: arbitrary. */
#define LONGEST_TEXT (MOST_BYTES / 4)

#define FIRST_SIZE 64			/* of the hash table, which grows: arbitrary */

typedef struct LaFindingEntry
{
	LaInsertFinding finding;
	char		status;
} LaFindingEntry;

static inline uint32 hash_subject(const LaInsertSubject *subject);
static inline bool same_subject(const LaInsertSubject *left,
								const LaInsertSubject *right);

#define SH_PREFIX findingtable
#define SH_ELEMENT_TYPE LaFindingEntry
#define SH_KEY_TYPE LaInsertSubject
#define SH_KEY finding.subject
#define SH_HASH_KEY(tb, key) hash_subject(&(key))
#define SH_EQUAL(tb, a, b) same_subject(&(a), &(b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static MemoryContext context = NULL;
static findingtable_hash *findings = NULL;
static uint64 known_changes = 0;

static void forget_all(void);

/*
 * What is known about a type, or about an expression, which is given as it is stored.
 * NULL when nothing.  It stays where it is until something is remembered or recalled.
 */
const LaInsertFinding *
la_insert_recall(const LaInsertSubject *subject, const char *stored)
{
	const LaFindingEntry *entry;

	if (known_changes != la_insert_changes())
		forget_all();
	if (findings == NULL)
		return NULL;
	entry = findingtable_lookup(findings, *subject);
	if (entry == NULL ||
		(stored != NULL && strcmp(entry->finding.stored, stored) != 0))
		return NULL;
	return &entry->finding;
}

/*
 * Keeps a copy of a finding that could not be recalled, unless its text is long.  Nothing must
 * have changed since.
 *
 * Memory can run out at any allocation: what is in the table is whole all the same, and
 * what is not is freed when all is forgotten.
 */
void
la_insert_remember(const LaInsertFinding *finding)
{
	LaInsertFinding copy = *finding;
	LaFindingEntry *entry;
	MemoryContext caller;
	bool		found;

	Assert(known_changes == la_insert_changes());
	if (finding->stored != NULL && strlen(finding->stored) > LONGEST_TEXT)
		return;
	if (findings != NULL &&
		MemoryContextMemAllocated(context, false) > MOST_BYTES)
		forget_all();
	if (context == NULL)
		context = AllocSetContextCreate(CacheMemoryContext,
										"pg_lookahead findings",
										ALLOCSET_DEFAULT_SIZES);
	if (findings == NULL)
		findings = findingtable_create(context, FIRST_SIZE, NULL);

	caller = MemoryContextSwitchTo(context);
	copy.functions = list_copy(finding->functions);
	copy.types = list_copy(finding->types);
	copy.tables = list_copy(finding->tables);
	if (finding->stored != NULL)
		copy.stored = pstrdup(finding->stored);
	MemoryContextSwitchTo(caller);
	entry = findingtable_insert(findings, finding->subject, &found);
	if (found)
	{
		list_free(entry->finding.functions);
		list_free(entry->finding.types);
		list_free(entry->finding.tables);
		pfree(entry->finding.stored);	/* it was another one */
	}
	entry->finding = copy;
}

static void
forget_all(void)
{
	known_changes = la_insert_changes();
	findings = NULL;
	if (context != NULL)
		MemoryContextReset(context);
}

static inline uint32
hash_subject(const LaInsertSubject *subject)
{
	return murmurhash32(subject->object ^ (uint32) subject->number << 16 ^
						subject->kind << 29 ^ subject->late);
}

static inline bool
same_subject(const LaInsertSubject *left, const LaInsertSubject *right)
{
	return left->object == right->object && left->kind == right->kind &&
		left->number == right->number && left->late == right->late;
}
