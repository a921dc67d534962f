/*-------------------------------------------------------------------------
 *
 * la_trial.h
 *	  finds out by trial whether a scan gains by asking ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TRIAL_H
#define LA_TRIAL_H

#include "portability/instr_time.h"

#include "prefetch/la_prefetch_settings.h"

typedef enum LaTrialPhase
{
	LA_TRIAL_SETTLE,			/* does not ask; not measured */
	LA_TRIAL_PLAIN,				/* does not ask */
	LA_TRIAL_CHANGE,			/* asks; not measured */
	LA_TRIAL_ASKED,				/* asks */
	LA_TRIAL_DECIDED,			/* does what was faster */
} LaTrialPhase;

typedef struct LaTrial
{
	LaTrialPhase phase;
	bool		ask;			/* shall the scan ask at present? */
	uint32		pages;			/* in this phase */
	instr_time	began;			/* this phase */
	instr_time	plain;			/* time that the plain phase took */
	double		factor;			/* how many times as fast asking has to be */
	uint32		divisor;		/* of the usual numbers of pages */
	uint32		safe_divisor;	/* of that of CHANGE, and of all in later
								 * trials */
} LaTrial;

extern uint32 la_trial_least_pages(void);
extern void la_trial_start(LaTrial *trial, double factor, uint32 divisor,
						   uint32 safe_divisor);
extern void la_trial_end_change(LaTrial *trial);
extern bool la_trial_pages(LaTrial *trial, uint32 pages);

#endif							/* LA_TRIAL_H */
