/*-------------------------------------------------------------------------
 *
 * la_insert_change.h
 *	  changes of what inserts are judged by
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_CHANGE_H
#define LA_INSERT_CHANGE_H

extern uint64 la_insert_changes(void);
extern int	la_insert_era(void);
extern void la_insert_watch(Oid table);
extern uint64 la_insert_tree_changes(void);
extern uint64 la_insert_table_messages(void);

#endif							/* LA_INSERT_CHANGE_H */
