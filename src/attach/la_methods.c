/*-------------------------------------------------------------------------
 *
 * la_methods.c
 *	  the table of features: which plan nodes are for each
 *
 * Every node of every query that starts is looked up, so a kind of node has one
 * feature at most, which is found by the number of the kind, and another one for nodes whose
 * expressions call plans.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "attach/la_methods.h"

const LaFeatureMethods *la_methods[LA_FEATURE_COUNT];

uint8		la_methods_by_kind[LA_NODE_KINDS];
uint8		la_methods_of_calling[LA_NODE_KINDS];

/*
 * At load: takes the table, by LaFeature.
 */
void
la_methods_init(const LaFeatureMethods *const *features)
{
	for (LaFeature feature = 0; feature < LA_FEATURE_COUNT; feature++)
	{
		const LaFeatureMethods *methods = features[feature];

		la_methods[feature] = methods;
		la_feature_declare(feature, methods->info);
		for (int i = 0; i < LA_FEATURE_NODES && methods->nodes[i].tag != T_Invalid; i++)
		{
			uint8	   *by_kind = methods->calling ?
				la_methods_of_calling : la_methods_by_kind;

			Assert(methods->nodes[i].tag < LA_NODE_KINDS);
			Assert(by_kind[methods->nodes[i].tag] == 0);
			by_kind[methods->nodes[i].tag] = feature + 1;
		}
	}
}

/*
 * May any plan node of a query that starts now be ours?
 */
bool
la_methods_any_node(void)
{
	for (LaFeature feature = 0; feature < LA_FEATURE_COUNT; feature++)
	{
		if (la_methods[feature]->nodes[0].exec != NULL && la_feature_enabled(feature))
			return true;
	}
	return false;
}
