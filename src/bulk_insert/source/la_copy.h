/*-------------------------------------------------------------------------
 *
 * la_copy.h
 *	  COPY FROM whose rows are collected
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COPY_H
#define LA_COPY_H

#include "attach/la_methods.h"

extern bool la_copy_run(const LaUtility *utility, QueryCompletion *qc);

#endif							/* LA_COPY_H */
