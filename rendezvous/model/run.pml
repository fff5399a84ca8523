/*
 * Which run a node takes part in (docs/rendezvous.md, restarts), for spin. What rendezvous.pml
 * proves is one step here: a world is sealed and started at once, by one leader.
 *
 *   here                          rendezvous/protocol/
 *   eRun, eLast, eState           Epoch.Run, Epoch.Last, Epoch.State
 *   key, run, claim               m/SLOT, Member.Run, Member.Claim
 *   saw                           node.go     sawEnd, needed
 *   seal                          gather.go   fits, claim; seal.go reopen, sealIt
 *   ends, again                   run.go      verdict, finish
 *   returns, turned away          leave.go    follow, runOver, awaitRun, comeBack; user.go look
 */

#define SIZE 2
#ifndef PROCS
#define PROCS 4       /* two nodes at first; the others begin where one is missing, or as standby nodes */
#endif
#ifndef WIPES
#define WIPES 1       /* how often the store is emptied */
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif

mtype = { ABSENT, WAITS, WORKS, ENDED, OUT };  /* OUT: it has left, or was turned away */
mtype = { NONE, OPEN, STARTED, OVER };

typedef Node {
	mtype is = ABSENT;
	bit key;          /* the store counts it as present */
	bit cut;          /* nothing reaches it */
	bit up;           /* it is registered, as far as it knows */
	bit saw;          /* it saw the end of the last store, in which its run could not end without it */
	bit claim;
	bit inside;       /* it is of the world of the epoch */
	byte part;        /* the run that it takes part in */
	byte restart;     /* of the world that it is in */
};
Node n[PROCS];
mtype eState = NONE;
byte eRun, eLast, eRestart, runs, wipes, cuts, begun;
bit over[8];          /* not of the protocol: the runs that have ended, or that another has replaced */
hidden byte i, j, k;

#define me    n[_pid]
#define known (eRun == me.part && me.part != 0)
#define heard (me.up && !me.cut && me.key)
#ifdef MUT_ANY_MEMBER
#define fits(p) (n[p].key && n[p].is == WAITS)
#else
#define fits(p) (n[p].key && n[p].is == WAITS && (n[p].part == 0 || n[p].part == nextRun))
#endif
#ifdef MUT_COMPARE
#define replaced false
#else
#define replaced (!known && (eRun != 0 || eLast != 0) || known && eState == OVER && !me.inside)
#endif
#ifdef MUT_CLAIM
#define claims(p) true
#else
#define claims(p) n[p].saw
#endif
#ifdef MUT_ENDED
#define needed(p) (ofEpoch(p) && (n[p].is == WORKS || n[p].is == ENDED) && n[p].restart < RESTARTS)
#elif defined(MUT_LAST)
#define needed(p) (ofEpoch(p) && n[p].is == WORKS)
#elif defined(MUT_OUTSIDE)
#define needed(p) (n[p].part == eRun && n[p].is == WORKS && n[p].restart < RESTARTS)
#else
/* a node that waits, and may be one too many, does not know */
#define needed(p) (ofEpoch(p) && n[p].is == WORKS && n[p].restart < RESTARTS)
#endif
/* as the node heard last: one that is cut off does not hear that the run is over */
#define ofEpoch(p) (n[p].part == eRun && (eState == OPEN || \
	n[p].inside && (eState == STARTED || eState == OVER && n[p].cut)))

#if PROCS != 4
#error "these spell out four processes"
#endif
#define ANY(f)   (f(0) || f(1) || f(2) || f(3))
#define COUNT(f) (f(0) + f(1) + f(2) + f(3))
#define claimed(p)   (n[p].key && n[p].is == WAITS && n[p].part != 0 && n[p].claim)
#define returning(p) (eRestart > 0 && n[p].key && (n[p].is == WORKS || n[p].is == ENDED))
#define well(p)      (n[p].inside && n[p].key && n[p].is == ENDED)
#define gone(p)      (n[p].inside && !n[p].key)

/* The run of the next world: the epoch's, or in a store that knows none the one that a member claims. */
#define claimOf(p) (claimed(p) -> n[p].part : 0)
#define first(a, b) (a != 0 -> a : b)
#define nextRun ((eRun != 0 || eLast != 0) -> eRun : \
	first(claimOf(0), first(claimOf(1), first(claimOf(2), claimOf(3)))))
#define enough (COUNT(fits) >= SIZE && !ANY(returning))

inline seal() {
	j = nextRun;
	for (i : 0 .. PROCS - 1) { n[i].inside = fits(i) }
	if
	:: j == 0 -> runs++; j = runs
	:: else
	fi;
	assert(!over[j]);                     /* a run that is over never has another world */
	k = 0;
	for (i : 0 .. PROCS - 1) {
		if
		:: n[i].inside && k == SIZE -> n[i].inside = 0
		:: n[i].inside && k < SIZE ->
			assert(n[i].part == 0 || n[i].part == j); /* nor has a world members of two runs */
			n[i].inside = 1; n[i].is = WORKS; n[i].part = j; n[i].restart = eRestart; n[i].saw = 0; k++
		:: else
		fi
	}
	for (i : 1 .. 7) { over[i] = over[i] || (i != j && i <= runs) }
	eRun = j; eState = STARTED
}

inline again() {
	if
	:: eRestart < RESTARTS -> eRestart++; eState = OPEN
	:: else -> eState = OVER; over[eRun] = 1
	fi;
	skip
}

/* P: where nothing can happen, no node believes in a run that is over, and no two wait for each other. */
inline rest() {
	assert(eState == STARTED || eState == OVER || !enough);
	for (i : 0 .. PROCS - 1) {
		assert(n[i].is == ABSENT || n[i].is == OUT || n[i].cut || n[i].part == 0 || !over[n[i].part])
	}
}

active [PROCS] proctype P() {
	if /* a node of the first run, or one that begins later */
	:: d_step { _pid < SIZE -> me.is = WAITS; begun++ }
	:: d_step { _pid >= SIZE && begun == _pid -> me.is = WAITS; begun++ }
	fi;
end:	do
	:: d_step { me.is == OUT -> me.key = 0; me.up = 0; me.saw = 0; me.claim = 0; me.cut = 0; me.part = 0 }; break
	/* register */
	:: d_step { me.is != OUT && !me.up && !me.cut -> me.key = 1; me.up = 1; me.claim = (me.part != 0 && claims(_pid)) }
	/* its lease runs out; later it notices */
	:: d_step { me.key && me.cut -> me.key = 0 }
	:: d_step { me.up && !me.key && !me.cut -> me.up = 0; me.saw = 0 }
	/* its command ends well, or fails */
	:: d_step { me.is == WORKS && heard && me.inside && eState == STARTED -> me.is = ENDED }
	:: d_step { me.is == WORKS && heard && me.inside && eState == STARTED && known -> again() }
	/* follow: the run is over; it starts again */
	:: d_step { heard && (me.is == WORKS || me.is == ENDED) && known && eState == OVER && me.inside -> me.is = OUT }
	:: d_step { heard && (me.is == WORKS || me.is == ENDED) && !replaced && (known && eState == OPEN ||
#ifdef MUT_COMPARE
		!known ||
#endif
		known && eState == STARTED && !me.inside || !known && claims(_pid)) ->
		me.is = WAITS; me.claim = claims(_pid) }
	/* turned away: another run, or an emptied store in which no node of its run claims it in time */
	:: d_step { heard && me.part != 0 && replaced -> assert(over[me.part]); me.is = OUT }
#ifndef MUT_COMPARE
	:: d_step { heard && me.part != 0 && !known && !claims(_pid) && eState != STARTED -> me.is = OUT }
#endif
	/* cut off, and back */
	:: d_step { me.up && !me.cut && cuts < CUTS -> cuts++; me.cut = 1 }
	:: d_step { me.cut -> me.cut = 0 }
	od
}

active proctype Store() {
end:	do
	/* open, for the first time or after a run whose nodes are gone */
	:: d_step { eState == NONE -> eState = OPEN }
	:: d_step { eState == STARTED && COUNT(well) == SIZE -> eState = OVER; over[eRun] = 1 }
	:: d_step { eState == STARTED && ANY(gone) -> again() } /* or after endGrace */
	:: d_step { eState == OVER && COUNT(gone) == SIZE -> eLast = eRun; eRun = 0; eRestart = 0; eState = OPEN }
	:: d_step { eState == OPEN && enough -> seal() }
	/* The store is emptied. A node that is connected, or was until just now, sees its end. */
	:: d_step { wipes < WIPES && eState != NONE -> wipes++;
		for (i : 0 .. PROCS - 1) {
			if
			:: n[i].up -> n[i].saw = (n[i].key && needed(i))
			:: else
			fi;
			n[i].key = 0; n[i].up = 0; n[i].inside = 0; n[i].claim = 0
		}
		eState = NONE; eRun = 0; eLast = 0; eRestart = 0 }
	:: timeout -> rest(); break
	od
}
