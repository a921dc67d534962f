/*-------------------------------------------------------------------------
 *
 * la_copy_rows.h
 *	  the rows of a COPY FROM, from its input into the table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COPY_ROWS_H
#define LA_COPY_ROWS_H

#include "commands/copy.h"

extern uint64 la_copy_rows(CopyFromState state, bool runs_user_code);

#endif							/* LA_COPY_ROWS_H */
