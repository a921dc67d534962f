/*-------------------------------------------------------------------------
 *
 * la_insert_search.c
 *	  a search for functions that see the rows of an insert
 *
 * Goes from an expression to the types that come up in it (la_insert_volatile.c), and from
 * each type to those that it is made of (la_insert_type.c).  What has been looked at before
 * is not looked at again (la_insert_finding.c), but for expressions that are not stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/inval.h"

#include "bulk_insert/judge/la_insert_change.h"
#include "bulk_insert/judge/la_insert_search.h"
#include "bulk_insert/judge/la_insert_type.h"
#include "bulk_insert/judge/la_insert_volatile.h"

static bool search_noted_types(LaInsertSearch *search);
static bool search_subject(LaInsertSearch *search,
						   const LaInsertSubject *subject, const char *stored,
						   LaInsertLook look);
static bool find_out(LaInsertSearch *search, const LaInsertSubject *subject,
					 const char *stored, LaInsertLook look);
static bool add(LaInsertSearch *search, const LaInsertFinding *finding);

/*
 * Can evaluating this call a volatile function that could look at tables?  Of a query,
 * an expression, or a list of expressions.  One that is evaluated late, when later rows
 * have been made (LaInsertSearch.late), must not call any volatile function: the current
 * value of a sequence and the next random number depend on that.  What has been looked
 * at is in the search afterwards.
 */
bool
la_insert_search(Node *expression, LaInsertSearch *search)
{
	return la_insert_walk(expression, search) || search_noted_types(search);
}

/*
 * The same of an expression that is stored, as a text, with a table or trigger.
 */
bool
la_insert_search_stored(LaInsertSearch *search, LaInsertSubject subject,
						const char *stored)
{
	subject.late = search->late;
	return search_subject(search, &subject, stored, NULL) ||
		search_noted_types(search);
}

/*
 * The same of what a function looks at.
 */
bool
la_insert_search_by(LaInsertSearch *search, LaInsertSubject subject,
					LaInsertLook look)
{
	subject.late = search->late;
	return search_subject(search, &subject, NULL, look) ||
		search_noted_types(search);
}

/*
 * Can a function see the rows so far that core may call for a value of a type that has
 * been noted?  Types that come up are noted, too.
 */
static bool
search_noted_types(LaInsertSearch *search)
{
	while (search->types_searched < list_length(search->types))
	{
		Oid			type = list_nth_oid(search->types, search->types_searched++);
		LaInsertSubject subject = {
			.kind = LA_INSERT_TYPE,.object = type,.late = search->late
		};

		if (search_subject(search, &subject, NULL, la_insert_search_type))
			return true;
	}
	return false;
}

/*
 * Of an expression, which is given as it is stored, or of what a function looks at.  Before
 * findings are trusted, changes that others have made are heard of once, as they would be
 * when catalogs were read.
 */
static bool
search_subject(LaInsertSearch *search, const LaInsertSubject *subject,
			   const char *stored, LaInsertLook look)
{
	const LaInsertFinding *known;

	if (!search->has_caught_up)
		AcceptInvalidationMessages();
	search->has_caught_up = true;
	known = la_insert_recall(subject, stored);
	return known != NULL ? add(search, known) :
		find_out(search, subject, stored, look);
}

/*
 * Something that changes while catalogs are looked at may have been seen as it was, or as
 * it is: such a finding is not kept.
 */
static bool
find_out(LaInsertSearch *search, const LaInsertSubject *subject,
		 const char *stored, LaInsertLook look)
{
	LaInsertFinding finding = {.subject = *subject};
	LaInsertSearch inner = {.late = subject->late};
	uint64		changes = la_insert_changes();

	if (stored != NULL)
		finding.stored = pstrdup(stored);	/* looking at catalogs can free it */
	finding.sees_rows = look != NULL ? look(&inner, subject->object) :
		la_insert_walk(stringToNode(finding.stored), &inner);
	finding.functions = inner.functions;
	finding.types = inner.types;
	finding.tables = inner.tables;
	if (changes == la_insert_changes())
		la_insert_remember(&finding);
	return add(search, &finding);
}

static bool
add(LaInsertSearch *search, const LaInsertFinding *finding)
{
	ListCell   *lc;

	if (finding->functions != NIL)
		search->functions = list_concat_unique_oid(search->functions,
												   finding->functions);
	if (finding->tables != NIL)
		search->tables = list_concat_unique_oid(search->tables, finding->tables);
	foreach(lc, finding->types)
		la_insert_note_type(search, lfirst_oid(lc));
	return finding->sees_rows;
}
