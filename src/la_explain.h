/*-------------------------------------------------------------------------
 *
 * la_explain.h
 *	  EXPLAIN (LOOKAHEAD)
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_EXPLAIN_H
#define LA_EXPLAIN_H

extern void la_explain_init(void);

#endif							/* LA_EXPLAIN_H */
