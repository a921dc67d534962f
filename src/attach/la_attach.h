/*-------------------------------------------------------------------------
 *
 * la_attach.h
 *	  hooks of the executor
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_ATTACH_H
#define LA_ATTACH_H

extern void la_attach_init(void);

#endif							/* LA_ATTACH_H */
