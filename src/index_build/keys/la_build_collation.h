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

/* Most bytes of sort keys that are made without making the whole. */
#define LA_MOST_WEIGHTS 256

/*
 * Bytes of ICU's sort keys that are made where nothing is known of the texts, of most
 * of which they hold a dozen letters.  With what goes with them they fill words.
 */
#define LA_USUAL_WEIGHTS 19

/* In the place of such a number: whole sort keys. */
#define LA_WHOLE_KEYS (-1)

#ifdef LA_TEST
extern bool la_test_fail_sort_keys;
#endif

typedef struct LaKnownKey LaKnownKey;

/* The sort key of one text after the other, all in one collation. */
typedef struct LaSortKey
{
	MemoryContext context;
	Oid			collation;
	pg_locale_t locale;
	char	   *bytes;
	Size		room;
	int			length;
	int			limit;			/* bytes that are made, or LA_WHOLE_KEYS */
	bool		is_cut;			/* a whole one would have gone on */
	LaKnownKey *known;			/* whole ones of texts that may come again */
} LaSortKey;

extern void la_sort_key_init(LaSortKey *key, Oid collation);
extern bool la_collation_is_shifted(Oid collation);
extern bool la_sort_key_has_choice(const LaSortKey *key);
extern bool la_sort_key_is_exact(const LaSortKey *key);
extern void la_sort_key_make(LaSortKey *key, Datum value);
extern void la_collation_distrust(Oid collation);
extern bool la_collation_is_distrusted(Oid collation);

#endif							/* LA_BUILD_COLLATION_H */
