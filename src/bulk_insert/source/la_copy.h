/*-------------------------------------------------------------------------
 *
 * la_copy.h
 *	  COPY FROM whose rows are collected
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COPY_H
#define LA_COPY_H

#include "commands/copy.h"

#include "attach/la_hooks.h"

extern bool la_copy_concerns(const LaUtility *utility);
extern bool la_copy_run(const LaUtility *utility, QueryCompletion *qc);
extern uint64 la_copy_rows(CopyFromState state);
extern void la_copy_read_plain_lines(CopyFromState state);

#endif							/* LA_COPY_H */
