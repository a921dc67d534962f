/*-------------------------------------------------------------------------
 *
 * la_copy_reason.h
 *	  which COPY FROM is left to core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COPY_REASON_H
#define LA_COPY_REASON_H

#include "commands/copy.h"

#include "attach/la_methods.h"

extern bool la_copy_concerns(const LaUtility *utility);
extern LaReason la_copy_unsuitable(const LaUtility *utility, Relation table);
extern LaReason la_copy_judge(CopyFromState state, bool *runs_user_code);

#endif							/* LA_COPY_REASON_H */
