/*-------------------------------------------------------------------------
 *
 * la_build_collation.c
 *	  sort keys of texts
 *
 * A sort key is a string of bytes made of a text, such that comparing the
 * sort keys of two texts byte by byte gives the order of the texts in a
 * collation.
 *
 * Those of ICU say nearly always what its comparison says; some collations, where they
 * do not, are left to core (see la_collation_is_shifted()), and in others the load
 * compares each text with the next all the same.  To make one takes long, and most of
 * it is never looked at: as a rule only the beginning is made, as much as tells
 * texts apart (see la_build_choice.c), by the function that makes core's abbreviated
 * keys.  Its documentation does not promise that this is the beginning of what ICU makes in
 * one piece; that is checked in the same way (see la_build_load.c).  Only where the same
 * short texts come again and again the whole sort keys are made, since equal ones then spare
 * all comparisons.  Where texts that ICU takes for equal are distinguished by their
 * bytes, these follow after a zero byte, which the sort key does not contain.
 *
 * Those of the C library, made by strxfrm(), say less: their order is not
 * always that of strcoll(), which defines the order of an index (relies on
 * strncoll_libc() in pg_locale_libc.c).  A build may take them for a guess at the order, which it
 * then has to check (see la_build_load.c).  So it is enough to keep their
 * beginning, where what matters most is: glibc's weights come in levels that
 * are separated by a byte 1, first those that tell letters apart, then, three
 * times as long, accents, case and the rest.  The disagreements that are known
 * are in the last level: in most locales of glibc 2.36 an ideograph and a sign
 * behind it come before the ideograph by strcoll(), after it by strxfrm().  What is
 * cut off at the first byte 1, or at any length, still sorts before what it is a
 * prefix of, so other libraries may do it otherwise.
 *
 * Reads pg_locale_struct of pg_locale.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "index_build/keys/la_build_collation.h"
#include "index_build/keys/la_build_text.h"
#include "la_compat.h"

/* Ends a level of weights in the sort keys of ICU and of glibc. */
#define END_OF_LEVEL '\1'

/*
 * Most bytes kept of a sort key that is only a guess, and most bytes of the text of
 * which it is made: nearly every letter has a weight of at least a byte.  Arbitrary.
 */
#define MAX_GUESS LA_MOST_WEIGHTS
#define MAX_GUESSED_TEXT 1024

/*
 * Longest text of which the whole sort key is made, if any are, and bytes of it
 * that are made of others: the first word of a key needs no more.
 */
#define MAX_WHOLE_TEXT 32
#define CUT_LENGTH 8

/*
 * A whole sort key, with what is added to it.  As many of them are kept, each in the
 * place of others; where they are made most texts come again.  Arbitrary: 64 kB in all.
 */
#define KNOWN_KEYS 512
#define MAX_KNOWN_KEY 94

struct LaKnownKey
{
	uint8		text_length;
	uint8		length;			/* 0: none */
	char text[	MAX_WHOLE_TEXT];
	char		bytes[MAX_KNOWN_KEY];
};

/* Room for sort keys that is kept from row to row; arbitrary. */
#define KEPT_ROOM (64 * 1024)

/* Room to begin with, for any beginning of a sort key. */
#define MIN_ROOM LA_MOST_WEIGHTS

#ifdef LA_TEST
bool		la_test_fail_sort_keys = false;
#endif

/* A collation whose sort keys have been found to be wrong. */
static Oid	distrusted_collation = InvalidOid;

static int	first_weight(pg_locale_t locale, const char *string);
static LaKnownKey *known_key(LaSortKey *key, const char *data, int length);
static void make_exact(LaSortKey *key, const char *data, int length);
static void make_whole(LaSortKey *key, const char *data, int length);
static void make_guess(LaSortKey *key, const char *data, int length,
					   bool is_clipped);
static void transform_beginning(LaSortKey *key, const char *data, int length,
								int limit);
static void transform(LaSortKey *key, const char *data, int length);
static int	first_level(const char *bytes, int size);

/*
 * True if a collation of ICU's ignores spaces and signs until the letters have been
 * compared ("alternate=shifted").  There ICU's sort keys and its comparison
 * disagree about marks behind such a character, and the comparison is not even
 * transitive, so that the order depends on the sort.  The attribute itself could
 * only be asked for by linking ICU.
 */
bool
la_collation_is_shifted(Oid collation)
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
 * Prepares for sort keys in a collation that has them, in the current context.
 */
void
la_sort_key_init(LaSortKey *key, Oid collation)
{
	memset(key, 0, sizeof(*key));
	key->context = CurrentMemoryContext;
	key->collation = collation;
	key->locale = pg_newlocale_from_collation(collation);
	key->limit = pg_strxfrm_prefix_enabled(key->locale) ? LA_USUAL_WEIGHTS : MAX_GUESS;
}

/*
 * True if it can be chosen how much of the sort keys is made.
 */
bool
la_sort_key_has_choice(const LaSortKey *key)
{
	return pg_strxfrm_prefix_enabled(key->locale);
}

/*
 * True if sort keys tell the whole order, so that equal ones mean equal texts.
 * If not, they tell which texts are likely to come first.
 */
bool
la_sort_key_is_exact(const LaSortKey *key)
{
	return key->limit == LA_WHOLE_KEYS;
}

/*
 * Makes the sort key of a text.
 */
void
la_sort_key_make(LaSortKey *key, Datum value)
{
	bool		is_exact = la_sort_key_is_exact(key);
	text	   *packed = la_text_start(value, is_exact ? -1 :
									   MAX_GUESSED_TEXT + MAX_MULTIBYTE_CHAR_LEN);
	const char *data = VARDATA_ANY(packed);
	int			length = VARSIZE_ANY_EXHDR(packed);

	key->is_cut = false;
	if (is_exact)
		make_exact(key, data, length);
	else if (length > MAX_GUESSED_TEXT)
		make_guess(key, data, pg_mbcliplen(data, length, MAX_GUESSED_TEXT), true);
	else
		make_guess(key, data, length, false);
	if ((Pointer) packed != DatumGetPointer(value))
		pfree(packed);

#ifdef LA_TEST
	if (la_test_fail_sort_keys && !is_exact && key->length > 0 && length % 2 == 1)
		key->bytes[0] ^= 0xFF;
#endif
}

/*
 * Where the sort key of a text is kept, if it is.
 */
static LaKnownKey *
known_key(LaSortKey *key, const char *data, int length)
{
	if (key->known == NULL)
		key->known = MemoryContextAllocZero(key->context,
											KNOWN_KEYS * sizeof(LaKnownKey));
	return &key->known[hash_bytes((const unsigned char *) data, length) % KNOWN_KEYS];
}

/*
 * Makes the whole sort key, or of a long text its beginning.
 */
static void
make_exact(LaSortKey *key, const char *data, int length)
{
	LaKnownKey *known;

	if (length > MAX_WHOLE_TEXT)
	{
		transform_beginning(key, data, length, CUT_LENGTH);
		key->is_cut = key->length == CUT_LENGTH;
		if (!key->is_cut)
			make_whole(key, data, length);
		return;
	}
	known = known_key(key, data, length);
	if (known->length > 0 && known->text_length == length &&
		memcmp(known->text, data, length) == 0)
	{
		key->length = known->length;
		memcpy(key->bytes, known->bytes, known->length);
		return;
	}
	make_whole(key, data, length);
	if (key->length > MAX_KNOWN_KEY)
		return;
	known->length = key->length;
	known->text_length = length;
	memcpy(known->text, data, length);
	memcpy(known->bytes, key->bytes, key->length);
}

/*
 * Makes the whole sort key, with what distinguishes texts that ICU takes for equal.
 */
static void
make_whole(LaSortKey *key, const char *data, int length)
{
	transform(key, data, length);
	if (key->locale->deterministic)
	{
		key->bytes[key->length++] = 0;
		memcpy(key->bytes + key->length, data, length);
		key->length += length;
	}
}

/*
 * Makes as much of the sort key as has been chosen.  Of a text that goes on, no more
 * than the first weights are known.
 */
static void
make_guess(LaSortKey *key, const char *data, int length, bool is_clipped)
{
	bool		is_libc = !la_sort_key_has_choice(key);

	if (is_libc)
		transform(key, data, length);
	else
		transform_beginning(key, data, length, key->limit);
	key->length = Min(key->length, key->limit);
	if (is_libc || is_clipped)
		key->length = first_level(key->bytes, key->length);
}

/*
 * Makes the beginning of a sort key.
 */
static void
transform_beginning(LaSortKey *key, const char *data, int length, int limit)
{
	key->length = 0;
	if (limit == 0)
		return;
	if (key->bytes == NULL)
	{
		key->room = MIN_ROOM;
		key->bytes = MemoryContextAllocHuge(key->context, key->room);
	}
	key->length = pg_strnxfrm_prefix(key->bytes, limit, data, length,
									 key->locale);
}

/*
 * Makes the sort key, with room for the text behind it.
 */
static void
transform(LaSortKey *key, const char *data, int length)
{
	if (key->bytes != NULL && key->room > KEPT_ROOM)
	{
		pfree(key->bytes);
		key->bytes = NULL;
		key->room = 0;
	}
	for (;;)
	{
		Size		size;

		if (key->bytes == NULL)
		{
			key->room = Max(key->room, MIN_ROOM);
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
 * Bytes of the first level of weights in a sort key of `size` bytes.
 */
static int
first_level(const char *bytes, int size)
{
	const char *end = memchr(bytes, END_OF_LEVEL, size);

	return end != NULL ? end - bytes : size;
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
