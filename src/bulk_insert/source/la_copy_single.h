/*-------------------------------------------------------------------------
 *
 * la_copy_single.h
 *	  a row of a COPY FROM that must not wait
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COPY_SINGLE_H
#define LA_COPY_SINGLE_H

#include "nodes/execnodes.h"

extern bool la_copy_insert_single(EState *estate, ResultRelInfo *partition,
								  TupleTableSlot *row);

#endif							/* LA_COPY_SINGLE_H */
