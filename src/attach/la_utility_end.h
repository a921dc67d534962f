/*-------------------------------------------------------------------------
 *
 * la_utility_end.h
 *	  a COPY that is executed where the chain of utility hooks ends
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_UTILITY_END_H
#define LA_UTILITY_END_H

#include "tcop/utility.h"

#include "attach/la_methods.h"

extern bool la_utility_end(const LaFeatureMethods *feature,
						   const LaUtility *utility,
						   ProcessUtility_hook_type next, QueryCompletion *qc);

#endif							/* LA_UTILITY_END_H */
