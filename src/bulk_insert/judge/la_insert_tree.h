/*-------------------------------------------------------------------------
 *
 * la_insert_tree.h
 *	  what there is among the partitions of a table, however deep
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_TREE_H
#define LA_INSERT_TREE_H

#include "utils/relcache.h"

#include "bulk_insert/judge/la_insert_function.h"

extern bool la_insert_search_tree(LaInsertSearch *search, Relation table);
extern bool la_insert_tree_has_foreign(Relation table);

#endif							/* LA_INSERT_TREE_H */
