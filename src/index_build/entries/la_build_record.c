/*-------------------------------------------------------------------------
 *
 * la_build_record.c
 *	  what is kept of an index entry until it is in the index
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/entries/la_build_record.h"

/*
 * memcpy() for index tuples and their parts.  Where the compiler can tell that a size is
 * small, as it can of IndexTupleSize(), it makes a string instruction of
 * memcpy(), whose start takes longer than the whole call does.  Here it cannot.
 */
pg_noinline void
la_build_record_copy(void *to, const void *from, Size size)
{
	memcpy(to, from, size);
}
