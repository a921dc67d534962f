/*-------------------------------------------------------------------------
 *
 * la_build_record.c
 *	  copies index tuples; what else is kept of an entry is told in
 *	  la_build_record.h
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/entries/la_build_record.h"

/*
 * memcpy() for index tuples.  Where the compiler can tell that a size is
 * small, as it can of IndexTupleSize(), it makes a string instruction of
 * memcpy(), whose start takes longer than the whole call does.  Here it cannot.
 */
pg_noinline void
la_copy(void *to, const void *from, Size size)
{
	memcpy(to, from, size);
}
