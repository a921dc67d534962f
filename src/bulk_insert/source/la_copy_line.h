/*-------------------------------------------------------------------------
 *
 * la_copy_line.h
 *	  plain lines of the input of a COPY FROM
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COPY_LINE_H
#define LA_COPY_LINE_H

#include "commands/copy.h"

extern void la_copy_read_plain_lines(CopyFromState state);

#endif							/* LA_COPY_LINE_H */
