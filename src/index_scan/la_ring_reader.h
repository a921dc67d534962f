/*-------------------------------------------------------------------------
 *
 * la_ring_reader.h
 *	  how the table pages of a ring's entries are had read
 *
 * A ring has one of two readers: by advice to the kernel (la_ring_advice.c), which
 * is the rule, or by a read stream (la_ring_stream.c).  The row of an entry is
 * fetched by the heap AM with either.  A reader looks ahead at entries, and has
 * the ring filled as far as it wants to look.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_READER_H
#define LA_RING_READER_H

#include "index_scan/la_tid_entry.h"

struct LaTidRing;

typedef struct LaRingReader
{
	/* Makes ring->reader_state, in the current memory context. */
	void		(*create) (struct LaTidRing *ring);

	/* The ring starts from empty. */
	void		(*start) (struct LaTidRing *ring);

	/*
	 * All entries that were ready are consumed: moves ring->ready past the
	 * next one.  Returns false when there is none to be had for now.
	 */
	bool		(*make_ready) (struct LaTidRing *ring);

	/*
	 * The row of the next entry, which is on another page than the one
	 * before, is about to be fetched.
	 */
	void		(*before_fetch) (struct LaTidRing *ring,
								 const LaTidEntry *entry);

	/*
	 * The scan goes on through core's functions: notes in ring->findings what
	 * has been found out.  NULL if that is nothing.
	 */
	void		(*hand_back) (struct LaTidRing *ring);

	/* Drops what was read ahead.  NULL if the reader holds nothing. */
	void		(*reset) (struct LaTidRing *ring);

	/* Frees what create() has made, after reset(). */
	void		(*free) (struct LaTidRing *ring);
} LaRingReader;

#endif							/* LA_RING_READER_H */
