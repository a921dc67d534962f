/*-------------------------------------------------------------------------
 *
 * la_join_exec.h
 *	  execution of a nested loop
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_EXEC_H
#define LA_JOIN_EXEC_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_nested_loop_methods;

#endif							/* LA_JOIN_EXEC_H */
