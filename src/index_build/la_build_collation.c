/*-------------------------------------------------------------------------
 *
 * la_build_collation.c
 *	  sort keys of texts
 *
 * A sort key is a string of bytes made of a text, such that comparing the
 * sort keys of two texts byte by byte gives the order of the texts in a
 * collation.
 *
 * Those of ICU are trusted, as core does it (see pg_strxfrm_enabled()).  Where
 * texts that ICU takes for equal are distinguished by their bytes, these
 * follow after a zero byte, which the sort key does not contain.
 *
 * Those of the C library, made by strxfrm(), are not: their order is not
 * always that of strcoll(), which defines the order of an index (see
 * pg_locale_libc.c).  A build may take them for a guess at the order, which it
 * then has to check (see la_build_load.c).  So it is enough to keep their
 * beginning, where what matters most is: glibc's weights come in levels that
 * are separated by a byte 1, first those that tell letters apart, then, three
 * times as long, accents, case and the rest.  The disagreements that are known
 * are in the last level: in most locales of glibc 2.36 an ideograph and a sign
 * behind it come before the ideograph by strcoll(), after it by strxfrm().  What is
 * cut off at the first byte 1, or at any length, still sorts before what it is a
 * prefix of, so other libraries may do it otherwise.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/memutils.h"
#include "varatt.h"

#include "index_build/la_build_collation.h"
#include "la_guc.h"

/* Ends a level of weights in glibc's sort keys. */
#define END_OF_LEVEL '\1'

/* Most bytes kept of a sort key that is only a guess; arbitrary. */
#define MAX_GUESS 256

/* A collation whose sort keys have been found to be wrong. */
static Oid	distrusted_collation = InvalidOid;

static void transform(LaSortKey *key, const char *data, int length);
static int	guess_length(const LaSortKey *key, int size);

/*
 * Prepares for sort keys in a collation that has them, in the current context.
 */
void
la_sort_key_init(LaSortKey *key, Oid collation)
{
	memset(key, 0, sizeof(*key));
	key->context = CurrentMemoryContext;
	key->collation = collation;
	key->locale = pg_newlocale_from_collation(collation);
}

/*
 * True if sort keys tell the whole order, so that equal ones mean equal texts.
 * If not, they tell which texts are likely to come first.
 */
bool
la_sort_key_is_exact(const LaSortKey *key)
{
	return pg_strxfrm_enabled(key->locale);
}

/*
 * Makes the sort key of a text.
 */
void
la_sort_key_make(LaSortKey *key, Datum value)
{
	text	   *packed = DatumGetTextPP(value);
	const char *data = VARDATA_ANY(packed);
	int			length = VARSIZE_ANY_EXHDR(packed);

	transform(key, data, length);
	if (!la_sort_key_is_exact(key))
		key->length = guess_length(key, key->length);
	else if (key->locale->deterministic)
	{
		key->bytes[key->length++] = 0;
		memcpy(key->bytes + key->length, data, length);
		key->length += length;
	}
	if ((Pointer) packed != DatumGetPointer(value))
		pfree(packed);

#ifdef LA_TEST
	if (la_test_fail_sort_keys && !la_sort_key_is_exact(key) && length % 2 == 1)
		key->bytes[0] ^= 0xFF;
#endif
}

/*
 * Makes the sort key, with room for the text behind it.
 */
static void
transform(LaSortKey *key, const char *data, int length)
{
	for (;;)
	{
		Size		size;

		if (key->bytes == NULL)
		{
			key->room = Max(key->room, 256);
			key->bytes = MemoryContextAllocHuge(key->context, key->room);
		}
		size = pg_strnxfrm(key->bytes, key->room, data, length, key->locale);
		if (size < key->room && size + 1 + length <= key->room)
		{
			key->length = size;
			return;
		}
		pfree(key->bytes);
		key->bytes = NULL;
		key->room = 2 * (size + 1 + length);
	}
}

/*
 * How much of a sort key of `size` bytes is kept for a guess.
 */
static int
guess_length(const LaSortKey *key, int size)
{
	const char *end;

	size = Min(size, MAX_GUESS);
	end = memchr(key->bytes, END_OF_LEVEL, size);
	return end != NULL ? end - key->bytes : size;
}

/*
 * Remembers that the sort keys of a collation have given a wrong order, for
 * the rest of the session.  One is enough: as a rule it is the database's.
 */
void
la_collation_distrust(Oid collation)
{
	distrusted_collation = collation;
}

bool
la_collation_is_distrusted(Oid collation)
{
	return OidIsValid(collation) && collation == distrusted_collation;
}
