/*-------------------------------------------------------------------------
 *
 * la_build_collation.h
 *	  sort keys of texts
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_COLLATION_H
#define LA_BUILD_COLLATION_H

#include "utils/pg_locale.h"

/*
 * Bytes of ICU's sort keys that are made where nothing is known of the texts, of most
 * of which they hold a dozen letters.  With what goes with them they fill words.
 */
#define LA_USUAL_WEIGHTS 19

#ifdef LA_TEST
extern bool la_test_fail_sort_keys;
#endif

/* The sort key of one text after the other, all in one collation. */
typedef struct LaSortKey
{
	MemoryContext context;
	Oid			collation;
	pg_locale_t locale;
	char	   *bytes;
	Size		room;
	int			length;
	bool		has_prefixes;	/* their beginnings can be made, as ICU's */
	int			limit;			/* bytes that are made at most */
} LaSortKey;

extern void la_sort_key_init(LaSortKey *key, Oid collation);
extern bool la_collation_is_shifted(Oid collation);
extern void la_sort_key_make(LaSortKey *key, Datum value);
extern void la_collation_distrust(Oid collation);
extern bool la_collation_is_distrusted(Oid collation);

#endif							/* LA_BUILD_COLLATION_H */
