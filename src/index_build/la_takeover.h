/*-------------------------------------------------------------------------
 *
 * la_takeover.h
 *	  puts our build function in the place of core's
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TAKEOVER_H
#define LA_TAKEOVER_H

extern void la_takeover_init(void);

#endif							/* LA_TAKEOVER_H */
