/*-------------------------------------------------------------------------
 *
 * la_interval_drain.h
 *	  gives rows of the default partition the partitions of their ranges
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_DRAIN_H
#define LA_INTERVAL_DRAIN_H

extern bool la_interval_drain(Oid parent, int most);

#endif							/* LA_INTERVAL_DRAIN_H */
