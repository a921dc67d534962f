/*-------------------------------------------------------------------------
 *
 * la_insert_loop.h
 *	  inserts whose rows are collected
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_LOOP_H
#define LA_INSERT_LOOP_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_bulk_insert_methods;

#endif							/* LA_INSERT_LOOP_H */
