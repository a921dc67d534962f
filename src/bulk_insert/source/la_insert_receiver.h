/*-------------------------------------------------------------------------
 *
 * la_insert_receiver.h
 *	  queries whose rows become a new table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_RECEIVER_H
#define LA_INSERT_RECEIVER_H

#include "executor/execdesc.h"
#include "nodes/parsenodes.h"

#include "la_counters.h"
#include "la_reason.h"

/*
 * What became of a query that fills a new table.
 */
typedef struct LaInsertReport
{
	const PlannedStmt *plan;
	LaReason	reason;			/* why rows were left to core, if they were */
	LaCounters	counters;
} LaInsertReport;

extern bool la_insert_begin_utility(Node *statement);
extern void la_insert_end_utility(bool begun);
extern bool la_insert_fills_table(void);
extern void la_insert_note_plan(const PlannedStmt *plan, LaReason judgement);
extern const LaInsertReport *la_insert_report(const PlannedStmt *plan);
extern void la_insert_begin_filling(QueryDesc *query);
extern void la_insert_end_filling(QueryDesc *query);

#endif							/* LA_INSERT_RECEIVER_H */
