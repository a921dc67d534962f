/*-------------------------------------------------------------------------
 *
 * la_build_collation.h
 *	  sort keys of texts
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_COLLATION_H
#define LA_BUILD_COLLATION_H

#include "fmgr.h"
#include "utils/pg_locale.h"
#include "varatt.h"

#ifdef LA_TEST
extern bool la_test_fail_sort_keys;
#endif

/* The sort key of one text after the other, all in one collation. */
typedef struct LaSortKey
{
	Oid			collation;
	pg_locale_t locale;
	bool		is_prefix;		/* ICU makes the beginning alone */
	char	   *bytes;
	Size		room;
	int			length;
} LaSortKey;

extern bool la_build_collation_is_shifted(Oid collation);
extern void la_build_collation_key_init(LaSortKey *key, Oid collation);
extern void la_build_collation_key_make(LaSortKey *key, Datum value);
extern void la_build_collation_distrust(Oid collation);
extern bool la_build_collation_is_distrusted(Oid collation);

/*
 * The beginning of a text, of at least `length` bytes unless it is shorter: all
 * of it if that costs nothing, or if `length` is -1.  If it is not the value itself,
 * the caller frees it.
 */
static inline text *
la_build_text_start(Datum value, int length)
{
	if (!VARATT_IS_EXTERNAL(DatumGetPointer(value)) &&
		!VARATT_IS_COMPRESSED(DatumGetPointer(value)))
		return (text *) DatumGetPointer(value);
	return DatumGetTextPSlice(value, 0, length);
}

#endif							/* LA_BUILD_COLLATION_H */
