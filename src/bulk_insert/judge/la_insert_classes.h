/*-------------------------------------------------------------------------
 *
 * la_insert_classes.h
 *	  what core calls for operator classes of users
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_CLASSES_H
#define LA_INSERT_CLASSES_H

extern bool la_insert_classes_see_rows(void);

#endif							/* LA_INSERT_CLASSES_H */
