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

/* The sort key of one text after the other, all in one collation. */
typedef struct LaSortKey
{
	MemoryContext context;
	Oid			collation;
	pg_locale_t locale;
	char	   *bytes;
	Size		room;
	int			length;
} LaSortKey;

extern void la_sort_key_init(LaSortKey *key, Oid collation);
extern bool la_sort_key_is_exact(const LaSortKey *key);
extern void la_sort_key_make(LaSortKey *key, Datum value);
extern void la_collation_distrust(Oid collation);
extern bool la_collation_is_distrusted(Oid collation);

#endif							/* LA_BUILD_COLLATION_H */
