/*-------------------------------------------------------------------------
 *
 * la_build_collation.c
 *	  sort keys of texts
 *
 * A sort key is a string of bytes made of a text, such that comparing the
 * sort keys of two texts byte by byte gives the order of the texts in a
 * collation.  An index build takes the beginnings of sort keys for a guess at
 * the order, and checks it by comparison when the index is loaded
 * (la_build_load.c).
 *
 * Sort keys of ICU nearly always say what its comparison says; collations
 * where they do not are left to core (la_build_collation_is_shifted()).  To make a
 * whole one takes long.  The function that makes core's abbreviated keys
 * makes the beginning alone.
 *
 * Sort keys of the C library, made by strxfrm(), say less: their order is not
 * always that of strcoll(), which defines the order of an index (relies on
 * strncoll_libc() in pg_locale_libc.c).  glibc's weights come in levels that
 * are separated by a byte 1, first those that tell letters apart, then, three
 * times as long, accents, case and the rest.  The disagreements that are known
 * are in the last level: in most locales of glibc 2.36 an ideograph and a sign
 * behind it come before the ideograph by strcoll(), after it by strxfrm().
 * Only the first level is kept.  What is cut off at the first byte 1, or at any
 * length, still sorts before what it is a prefix of, so other libraries may do
 * it otherwise.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "mb/pg_wchar.h"

#include "index_build/keys/la_build_collation.h"
#include "la_compat.h"

/* Ends a level of weights in the sort keys of ICU and of glibc. */
#define END_OF_LEVEL '\1'

/*
 * Bytes that are made of ICU's sort keys: of most texts they hold a dozen letters,
 * and with what is kept with them they fill words.
 */
#define ICU_BYTES 19

/*
 * Most bytes kept of the C library's, and most bytes of a text of which any is made:
 * nearly every letter has a weight of at least a byte.  Arbitrary.
 */
#define MAX_BYTES 256
#define MAX_TEXT 1024

#ifdef LA_TEST
bool		la_test_fail_sort_keys = false;
#endif

/* A collation whose sort keys have been found to be wrong. */
static Oid	distrusted_collation = InvalidOid;

static int
first_weight(pg_locale_t locale, const char *string)
{
	unsigned char sort_key[256];

	if (pg_strnxfrm((char *) sort_key, sizeof(sort_key), string,
					strlen(string), locale) == 0)
		return -1;
	return sort_key[0];
}

/*
 * True if a collation of ICU's ignores spaces and signs until the letters have been
 * compared ("alternate=shifted").  There ICU's sort keys and its comparison
 * disagree about marks behind such a character, and the comparison is not even
 * transitive, so that the order depends on the sort.  The attribute itself could
 * only be asked for by linking ICU.
 */
bool
la_build_collation_is_shifted(Oid collation)
{
	pg_locale_t locale;
	int			weight;

	if (!OidIsValid(collation) ||
		la_compat_collation_provider(collation) != COLLPROVIDER_ICU)
		return false;
	locale = pg_newlocale_from_collation(collation);
	weight = first_weight(locale, "a");
	return weight == first_weight(locale, " a") ||
		weight == first_weight(locale, "-a");
}

/*
 * Prepares for sort keys in a collation that has them, in the current context.
 */
void
la_build_collation_key_init(LaSortKey *key, Oid collation)
{
	memset(key, 0, sizeof(*key));
	key->collation = collation;
	key->locale = pg_newlocale_from_collation(collation);
	key->is_prefix = pg_strxfrm_prefix_enabled(key->locale);
	key->room = MAX_BYTES;
	key->bytes = palloc(key->room);
}

/*
 * Makes the beginning of the sort key of a text.
 */
void
la_build_collation_key_make(LaSortKey *key, Datum value)
{
	text	   *packed = la_build_text_start(value, MAX_TEXT + MAX_MULTIBYTE_CHAR_LEN);
	const char *data = VARDATA_ANY(packed);
	int			length = VARSIZE_ANY_EXHDR(packed);
	bool		is_clipped = length > MAX_TEXT;

	if (is_clipped)
		length = pg_mbcliplen(data, length, MAX_TEXT);
	if (key->is_prefix)
		key->length = pg_strnxfrm_prefix(key->bytes, ICU_BYTES, data, length,
										 key->locale);
	else
	{
		Size		size;

		while ((size = pg_strnxfrm(key->bytes, key->room, data, length,
								   key->locale)) >= key->room)
		{
			key->room = 2 * size;
			key->bytes = repalloc(key->bytes, key->room);
		}
		key->length = Min(size, MAX_BYTES);
	}

	/* of a text that goes on no more than the first weights are known */
	if (is_clipped || !key->is_prefix)
	{
		const char *end = memchr(key->bytes, END_OF_LEVEL, key->length);

		if (end != NULL)
			key->length = end - key->bytes;
	}
#ifdef LA_TEST
	if (la_test_fail_sort_keys && key->length > 0 &&
		VARSIZE_ANY_EXHDR(packed) % 2 == 1)
		key->bytes[0] ^= 0xFF;
#endif
	if ((Pointer) packed != DatumGetPointer(value))
		pfree(packed);
}

/*
 * Remembers that the sort keys of a collation have given a wrong order, for
 * the rest of the session.  One is enough: as a rule it is the database's.
 */
void
la_build_collation_distrust(Oid collation)
{
	distrusted_collation = collation;
}

bool
la_build_collation_is_distrusted(Oid collation)
{
	return OidIsValid(collation) && collation == distrusted_collation;
}
