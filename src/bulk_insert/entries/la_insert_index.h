/*-------------------------------------------------------------------------
 *
 * la_insert_index.h
 *	  index entries of inserted rows, collected and sorted
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_INDEX_H
#define LA_INSERT_INDEX_H

#include "nodes/execnodes.h"
#include "utils/tuplesort.h"

#include "la_counters.h"

/*
 * An index whose entries are collected, or that is built anew at the end.
 */
typedef struct LaInsertIndex
{
	Relation	relation;
	IndexInfo  *info;
	bool		rebuild;
	Tuplesortstate *sort;		/* of what is collected, or NULL */
	Size		bytes;			/* of memory that it takes, at most */
	Size		most_bytes;		/* as many are collected before it is inserted */
	Size		inserted;		/* bytes that have been collected before */
} LaInsertIndex;

typedef struct LaInsertIndexes
{
	EState	   *estate;
	LaCounters *counters;
	MemoryContext context;
	int			memory_kb;		/* of each sort */
	bool		from_nothing;	/* had the table hardly any rows? */
	bool		tells_lines;	/* do errors name the line of a row? */
	ResultRelInfo at_once;		/* with the indexes that have to be told of
								 * each row by itself */
	bool		wants_rows;		/* is there one that is not built anew? */
	int			count;
	LaInsertIndex collected[FLEXIBLE_ARRAY_MEMBER];
} LaInsertIndexes;

extern LaInsertIndexes *la_insert_indexes_begin(ResultRelInfo *table,
												EState *estate,
												bool from_nothing,
												bool tells_lines,
												LaCounters *counters);
extern void la_insert_indexes_expect_many(LaInsertIndexes *indexes);
extern void la_insert_indexes_add(LaInsertIndexes *indexes,
								  TupleTableSlot *row);
extern void la_insert_indexes_end(LaInsertIndexes *indexes);

#endif							/* LA_INSERT_INDEX_H */
