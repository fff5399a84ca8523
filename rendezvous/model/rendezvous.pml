/*
 * How the nodes agree (docs/rendezvous.md), for spin. Each d_step is one
 * transaction of the store, one arrival of news, or one decision that needs
 * neither; what the Go code does in one goroutine between two transactions is
 * part of the step that follows.
 *
 *   here                        rendezvous/protocol/
 *   store: mk, ld, e, place     m/SLOT, c/leader, c/epoch, w/NONCE/SLOT
 *   eVoid                       c/r/NONCE (keys.go Quit)
 *   n[p].pb                     p/N/NAME/RANK
 *   Session: register           register.go  register, registered, replaced
 *            depose             register.go  replaced
 *            campaign, rebind   pass.go      elect, elected
 *            hear               hear.go      hear (watch of c/)
 *            hear members       lead.go      hearJob (watch of the job)
 *            own key            hear.go      hearOwn
 *            life ends          node.go      fail
 *            open, resign       lead.go      stepSealed, resign
 *            places, seal       seal.go      seal, writePlaces, sealIt
 *            go                 run.go       reduced
 *            post               pass.go      send
 *   App:     read place         user.go      placed, enter
 *            result             user.go      result
 *            give up            user.go      giveUp, withdrew
 *            leave              leave.go     leave
 *   in one step with these: begin, granted, register again, describe, wake,
 *            reduce, join, look, round, time is up
 *   not in this model: contend, locate, host, over, announce, warn, other size, last run,
 *            last news, start, acknowledge, command ends, follow, return
 *
 * Revisions are not counted. "The key is the version that I read" is one bit
 * for each reader, which every write of the key clears (epCur, ldCur, dirty):
 * within one life of a store a revision is never used twice, so that is exact,
 * and two histories that differ in their numbers alone are one state. A view
 * lags because taking news in is a step of its own that may come at any time,
 * and then shows the store as it is; so every earlier version can be seen, in
 * order, and the watches of one node lag behind each other.
 */

#ifndef NODES
#define NODES 3   /* slots: indexes that a scheduler gave */
#endif
#ifndef SIZE
#define SIZE 3    /* nodes of a world; less than NODES: one is too many */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef SPARES
#define SPARES FAULTS /* processes that begin in the slot of another */
#endif
#define PROCS (NODES + SPARES)
#if !defined(CRASH) && !defined(BESIDE) && !defined(PAUSE) && !defined(LOST) && !defined(QUIT) && !defined(WIPE)
#define CRASH   /* a process dies, and is started again */
#define BESIDE  /* it is started again while the older one still runs */
#define PAUSE   /* the lease of a living process runs out */
#define LOST    /* a transaction is carried out and its reply is lost, or a life just ends */
#define QUIT    /* a node's time runs out, and it is started again */
#endif
/* WIPE: the store came back empty */

#if NODES > 3 || SIZE > NODES || SPARES > 3
#error "the macros below spell out three slots and six processes"
#endif

/* epoch */
#define NONE    0
#define OPEN    1
#define SEALED  2
#define STARTED 3

/* session */
#define ABSENT  0 /* not begun */
#define DOWN    1 /* has a new lease, is not registered */
#define UP      2
#define DEPOSES 3 /* has replaced an incarnation that leads */
#define STOPPED 4 /* about to give its lease back */
#define ENDED   5

/* what Join and Round are doing */
#define JOINS   0
#define ROUND   1
#define OUT     2 /* has given up, and not left yet */
#define GONE    3
#define RUNS    4 /* has read the go: its command starts */

/* who leads, as a node knows it */
#define FREE    0
#define OWN     1
#define OTHER   2

#define NONCES  8
#define LEFT    8 /* in a member's value: it leaves */

/* The store. A key's holder is 1 + the process; 0: there is no key. */
byte mk[NODES];     /* m/SLOT, with LEFT */
bit  mo[NODES];     /* bound to a lease that is kept alive no longer */
unsigned ld : 3;    /* c/leader */
bit  lo;            /* bound to a lease that is kept alive no longer */
unsigned eN : 4, eNonce : 3, eState : 2; /* c/epoch */
bit  eVoid;         /* c/r/NONCE of this epoch: a node of it has given up */
unsigned pNonce : 3;
byte place[SIZE];   /* w/NONCE/: who has each rank; one try's are there at a time */

typedef Node {
	unsigned slot : 2, s : 3, app : 3;
	bit tried;           /* its first registration was carried out */
	bit wasUp;           /* and it knows */
	unsigned vN : 4, vNonce : 3, vState : 2; /* c/epoch as it was heard of */
	bit epCur;           /* and that is its present version */
	unsigned vLd : 2;    /* c/leader as it was heard of: FREE, OWN, OTHER */
	bit ldCur;           /* OWN: and it has that create revision */
	bit here;            /* leads with the lease of this life */
	bit yields;          /* has resigned */
	bit dead;            /* its lease ran out: what is put with it fails */
	bit old;             /* what it knows is of a store that is no more */
	unsigned joined : 3, rank : 2;
	unsigned pb : 2;     /* its post in the joined world: none, bound to this lease, to an earlier one */
	unsigned self : 4;   /* Member.Epoch */
	/* a leader's */
	byte vm[NODES];      /* members as it was heard of them */
	unsigned dirty : 3;  /* slots whose key is newer than that */
	unsigned vp : 3;     /* ranks whose post for the epoch was heard of */
	bit seal;
	unsigned nonce : 3;
	bit waits;           /* a seal failed: nothing new before it hears more */
	/* not of the protocol: for the properties */
	bit gaveUp;          /* its caller was told so */
	unsigned seen : 4;   /* the highest sealed number that it has heard of */
};
Node n[PROCS];
unsigned faults : 3, spares : 3;
short sealedOnce;        /* numbers that were sealed in this life of the store */
hidden byte i, j, k, w;

#define me     n[_pid]
#define mine   (_pid + 1)
#define alive(q) (n[q].s >= DOWN && n[q].s <= DEPOSES)
#define fault  (faults < FAULTS)
#ifdef LOST
#define canLose fault
#else
#define canLose false
#endif

/* Who led so far writes nothing any more. What it knows of the members is then
 * forgotten at once, and not when it hears of its loss: fewer states. */
#if defined(MUT_LEADER) || defined(MUT_LEADER_LEASE)
#define reduced false
#else
#define reduced true
#endif

/* ---- guards: each is a compare of the Go code; MUT_ takes one away ---- */

#define ownLease (mk[me.slot] % LEFT == mine && !mo[me.slot])

#ifdef MUT_LEADER
#define leads    true
#elif defined(MUT_LEADER_LEASE)
#define leads    ((ld != 0 && me.ldCur) || (me.old && ld != 0))
#elif defined(MUT_LEADER_CREATE)
#define leads    (ld == mine && !lo)
#else
#define leads    (ld == mine && me.ldCur && !lo)
#endif

#ifdef MUT_EPOCH
#define sameEpoch true
#else
#define sameEpoch (me.epCur || me.old)
#endif

#define unchanged (me.dirty == 0 || me.old)
#ifdef MUT_SEAL_UNCHANGED
#define sealUnchanged true
#else
#define sealUnchanged unchanged
#endif
#ifdef MUT_GO_UNCHANGED
#define goUnchanged true
#else
#define goUnchanged unchanged
#endif
#ifdef MUT_GO_VOID
#define goVoid true
#else
#define goVoid (!eVoid)
#endif
#ifdef MUT_POST_LEASE
#define postLease true
#else
#define postLease ownLease
#endif
#ifdef MUT_POST_EPOCH
#define postEpoch true
#else
#define postEpoch sameEpoch
#endif
#ifdef MUT_WITHDRAW
#define noResult true
#else
#define noResult (!(eState == STARTED && eNonce == me.joined))
#endif

inline quiet(p) {
	n[p].dirty = 0; n[p].vp = 0; n[p].seal = 0; n[p].nonce = 0; n[p].waits = 0;
	for (i : 0 .. NODES - 1) { n[p].vm[i] = 0 }
}

inline forgetLead(p) { n[p].here = 0; quiet(p) }

/* ---- writes ---- */

inline putMember(p) {
	for (i : 0 .. PROCS - 1) {
		if
		:: n[i].here && (ld == i + 1 || !reduced) -> n[i].dirty = n[i].dirty | (1 << n[p].slot)
		:: else
		fi
	}
}

inline dropMember(key) {
	mk[key] = 0; mo[key] = 0;
	for (i : 0 .. PROCS - 1) { /* a compare does not see what is gone */
		n[i].dirty = n[i].dirty & (7 - (1 << key))
	};
	skip /* a d_step must not end with a loop */
}

inline fallen() {
	if
	:: ld != 0 && reduced -> quiet(ld - 1)
	:: else
	fi
}

inline putLeader(p) {
	if
	:: ld == 0 -> for (i : 0 .. PROCS - 1) { n[i].ldCur = 0 } /* a create */
	:: ld != 0 && ld != p + 1 -> fallen()
	:: else
	fi;
	ld = p + 1; lo = 0
}

inline dropLeader() {
	fallen();
	for (i : 0 .. PROCS - 1) { n[i].ldCur = 0 };
	ld = 0; lo = 0
}

inline putEpoch(number, nonce_, state) {
	eN = number; eNonce = nonce_; eState = state;
	for (i : 0 .. PROCS - 1) { n[i].epCur = 0 }
}

/* ---- what a node knows ---- */

inline hearEpoch(p) {
	if
	:: n[p].vNonce != eNonce || eState != SEALED -> n[p].vp = 0
	:: else
	fi;
	n[p].vN = eN; n[p].vNonce = eNonce; n[p].vState = eState; n[p].epCur = 1;
	if
	:: eState >= SEALED && eN > n[p].seen -> n[p].seen = eN
	:: else
	fi;
	if /* Round: broken */
	:: n[p].app == ROUND && n[p].joined != eNonce -> n[p].app = JOINS
	:: else
	fi;
	if
	:: n[p].app == JOINS && eState == SEALED && n[p].joined != eNonce -> readPlace(p)
	:: else
	fi
}

inline readPlace(p) { /* read place */
	for (i : 0 .. SIZE - 1) {
		w = (pNonce == eNonce -> place[i] : 0);
		if
#ifdef MUT_PLACE_ID
		:: w != 0 && n[(w != 0 -> w - 1 : 0)].slot == n[p].slot ->
#else
		:: w == p + 1 ->
#endif
			n[p].joined = eNonce; n[p].rank = i; n[p].pb = 0; n[p].app = ROUND;
			checkPlace(p)
		:: else
		fi
	}
}

inline hear(p) {
	hearEpoch(p);
	n[p].vLd = (ld == 0 -> FREE : (ld == p + 1 -> OWN : OTHER)); n[p].ldCur = (ld == p + 1);
	if
	:: ld != p + 1 && n[p].here -> forgetLead(p)
	:: else
	fi;
	goes(p)
}

inline goes(p) { /* Round: the result */
	if
	:: n[p].app == ROUND && n[p].joined == n[p].vNonce && n[p].vState == STARTED -> starts(p)
	:: else
	fi
}

#define postOf(p, q) ((q < PROCS && n[q].pb != 0 && n[q].joined == n[p].vNonce) -> (1 << n[q].rank) : 0)
#define at(q)        (q < PROCS -> q : 0)
#define posts(p)     ((n[p].vState == SEALED && n[p].vNonce != 0) -> \
	(postOf(p, 0) | postOf(p, 1) | (PROCS > 2 -> postOf(p, at(2)) : 0) | (PROCS > 3 -> postOf(p, at(3)) : 0) | \
	 (PROCS > 4 -> postOf(p, at(4)) : 0) | (PROCS > 5 -> postOf(p, at(5)) : 0)) : 0)

inline hearMembers(p) {
	for (i : 0 .. NODES - 1) { n[p].vm[i] = mk[i] }
	n[p].dirty = 0; n[p].waits = 0;
	n[p].vp = posts(p)
}

#define member(x)  (x < NODES -> x : 0)
#define membersNew (me.dirty != 0 || me.waits || me.vp != posts(_pid) || \
	me.vm[0] != mk[0] || me.vm[member(1)] != mk[member(1)] || me.vm[member(2)] != mk[member(2)])

/* ---- the end of a life, and of a process ---- */

inline oldLease(p) {
	if
	:: mk[n[p].slot] % LEFT == p + 1 -> mo[n[p].slot] = 1
	:: else
	fi;
	if
	:: ld == p + 1 -> lo = 1
	:: else
	fi;
	if
	:: n[p].pb == 1 -> n[p].pb = 2
	:: else
	fi
}

inline leaseGone(p) {
	if
	:: mk[n[p].slot] % LEFT == p + 1 && !mo[n[p].slot] -> dropMember(n[p].slot)
	:: else
	fi;
	if
	:: ld == p + 1 && !lo -> dropLeader()
	:: else
	fi;
	if
	:: n[p].pb == 1 -> n[p].pb = 0
	:: else
	fi
}

inline endLife(p) {
	oldLease(p);
	forgetLead(p);
	n[p].s = DOWN; n[p].vLd = FREE; n[p].ldCur = 0; n[p].epCur = 0; n[p].dead = 0; n[p].old = 0
}

inline ends(p, why) {
	forgetLead(p);
	n[p].s = ENDED; n[p].app = why; n[p].vN = 0; n[p].vNonce = 0; n[p].vState = 0; n[p].epCur = 0;
	n[p].vLd = FREE; n[p].ldCur = 0; n[p].yields = 0; n[p].dead = 0; n[p].old = 0; n[p].wasUp = 0;
	if
	:: n[p].pb == 0 -> n[p].joined = 0; n[p].rank = 0
	:: else
	fi
}

inline beginIn(slot_) {
	n[NODES + spares].slot = slot_; n[NODES + spares].s = DOWN; spares++
}

/* ---- the properties ---- */

inline checkPlace(p) { /* P1 */
	for (j : 0 .. PROCS - 1) {
		assert(j == p || n[j].joined != n[p].joined || n[j].rank != n[p].rank)
	}
}

inline checkSeal(p, number) { /* P2; its own store's numbers, and those that its members know of another */
	assert((sealedOnce & (1 << number)) == 0);
	sealedOnce = sealedOnce | (1 << number);
	for (i : 0 .. SIZE - 1) {
		assert(place[i] == 0 || n[place[i] - 1].seen < number)
	}
}

inline checkGo(nonce_) { /* P3 */
	for (i : 0 .. SIZE - 1) {
		w = place[i];
		assert(pNonce == nonce_ && w != 0);
		assert(!n[w - 1].gaveUp);
		assert(mk[n[w - 1].slot] == 0 || mk[n[w - 1].slot] == w)
	}
}

inline starts(p) { /* P3 */
	assert(eState == STARTED && eNonce == n[p].joined);
	assert(pNonce == n[p].joined && place[n[p].rank] == p + 1);
#ifdef REACH /* must fail: a world starts after as many broken ones as there are faults */
	assert(eN <= FAULTS);
#endif
	for (i : 0 .. SIZE - 1) { assert(!n[place[i] - 1].gaveUp) }
	ends(p, RUNS) /* its lease lives on; what else its session does is for the next run */
}

/* P4: where nothing can happen any more, a world has started, and all of it that lives. */
#define rank(r)  (r < SIZE -> r : 0)
#define startedOrLost(r) (n[place[rank(r)] - 1].app == RUNS || n[place[rank(r)] - 1].app == GONE)
#define wellEnded (eState == STARTED && pNonce == eNonce && startedOrLost(0) && startedOrLost(1) && startedOrLost(2))

/* ---- what a leader sees ---- */

#define leader   (me.s == UP && me.here && me.seal == 0)
#define sealedAt(r) (pNonce == me.vNonce -> place[rank(r)] : 0)
#define lost(r)  ((r < SIZE && sealedAt(r) != 0) -> me.vm[n[(sealedAt(r) != 0 -> sealedAt(r) - 1 : 0)].slot] != sealedAt(r) : 0)
#define losses   (lost(0) + lost(1) + lost(2))
#define inside   (sealedAt(0) == mine || (SIZE > 1 && sealedAt(1) == mine) || (SIZE > 2 && sealedAt(2) == mine))
#define stays(x) (x < NODES && me.vm[member(x)] != 0 && me.vm[member(x)] < LEFT)
#define stayers  (stays(0) + stays(1) + stays(2))

inline nextNumber(p) { /* into j, above all that the members in view have seen */
	for (i : 0 .. NODES - 1) {
		w = n[p].vm[i];
		if
		:: w != 0 && n[w % LEFT - 1].self + 1 > j -> j = n[w % LEFT - 1].self + 1
		:: else
		fi
	}
}

inline openNext(p) {
	j = n[p].vN + 1; /* only an open epoch keeps its number, and none is opened twice here */
	nextNumber(p);
	eVoid = 0;
	putEpoch(j, 0, OPEN)
}

inline clearPlaces() {
	pNonce = 0;
	for (i : 0 .. SIZE - 1) { place[i] = 0 }
}

inline freshNonce() { /* into k: one that nobody remembers */
	k = 0;
	do
	:: k++; assert(k < NONCES);
		w = (eNonce == k || pNonce == k);
		for (i : 0 .. PROCS - 1) {
			w = w || n[i].vNonce == k || n[i].joined == k || n[i].nonce == k
		}
		if
		:: !w -> break
		:: else
		fi
	od
}

/* Ranks by an order that is the leader's own, itself last: two leaders make two worlds of the same nodes. */
inline putPlaces(p) {
	if
	:: n[p].nonce != 0 && pNonce == n[p].nonce -> skip /* of a try that failed: what differs is written */
	:: else -> freshNonce(); n[p].nonce = k; pNonce = k
	fi;
	j = 0;
	for (i : 1 .. NODES) {
		w = n[p].vm[(n[p].slot + i) % NODES];
		if
		:: w != 0 && w < LEFT && j < SIZE -> place[j] = w; j++
		:: else
		fi
	}
}

inline sealIt(p) {
	j = n[p].vN;
	for (i : 0 .. SIZE - 1) {
		w = place[i];
		if
		:: w != 0 && n[w - 1].self + 1 > j -> j = n[w - 1].self + 1
		:: else
		fi
	}
	checkSeal(p, j);
	putEpoch(j, n[p].nonce, SEALED)
}

inline register(p) {
#ifndef MUT_NUMBER
	n[p].self = (n[p].vN > n[p].self -> n[p].vN : n[p].self);
#endif
	n[p].tried = 1;
	mk[n[p].slot] = p + 1; mo[n[p].slot] = 0; putMember(p);
	if
	:: ld == 0 && !n[p].yields -> putLeader(p)
	:: else
	fi
}

/* One transaction: carried out, and its reply read or lost. */
#define TXN(guard, writes, learns) \
	:: d_step { guard -> writes; learns } \
	:: d_step { (guard) && canLose -> faults++; writes; endLife(_pid) }

#define could(q) (q < PROCS && alive(at(q)) && !(n[at(q)].yields && n[at(q)].epCur))
#define runs(q)  (q < PROCS && n[at(q)].app == RUNS)
#define someRuns (runs(0) || runs(1) || runs(2) || runs(3) || runs(4) || runs(5))

active [PROCS] proctype Session() {
	d_step {
		if
		:: _pid < NODES -> me.slot = _pid; me.s = DOWN
		:: else
		fi
	}
end:	do
	/* register. All nodes are alike, so the first time they may as well come in order. */
	:: d_step { me.s == DOWN && mk[me.slot] % LEFT != 0 && mk[me.slot] % LEFT != mine && me.wasUp -> /* superseded */
		leaseGone(_pid); ends(_pid, GONE) }
#define mayRegister (me.s == DOWN && (mk[me.slot] % LEFT == 0 || mk[me.slot] % LEFT == mine || !me.wasUp) && \
	(_pid == 0 || _pid >= NODES || n[(_pid > 0 -> _pid - 1 : 0)].tried || n[(_pid > 0 -> _pid - 1 : 0)].app != JOINS))
	:: d_step { mayRegister ->
		k = mk[me.slot] % LEFT;
		register(_pid);
		me.s = UP; me.wasUp = 1; me.here = (ld == mine && !lo);
		hear(_pid);
		if
		:: me.here -> hearMembers(_pid)
		:: me.s == UP && k != 0 && k != mine && ld == k -> me.s = DEPOSES; me.ldCur = 1
		:: else
		fi }
	:: d_step { mayRegister && canLose -> faults++; register(_pid); endLife(_pid) }
	:: d_step { me.s == DEPOSES ->
		if
		:: me.ldCur -> dropLeader()
		:: else
		fi;
		me.ldCur = 0; me.s = UP }
	:: d_step { me.s == DEPOSES && me.old && ld != 0 -> dropLeader(); me.s = UP } /* depose: the revision of another store */

	/* life ends */
	:: d_step { me.s == UP && canLose -> faults++; endLife(_pid) }
	:: d_step { me.s == UP && me.seal == 0 && (mk[me.slot] == 0 || me.dead) -> endLife(_pid) } /* own key, keep-alive */
	:: d_step { me.s == UP && me.seal == 0 && mk[me.slot] != 0 && mk[me.slot] % LEFT != mine && !me.old -> /* superseded */
		leaseGone(_pid); ends(_pid, GONE) }

	/* hear, hear members */
#if defined(WIPE) || defined(LIVE)
#define concerns true
#else
#define concerns (me.here || me.app == ROUND || eState == SEALED) /* no other news changes what a node does: fewer states */
#endif
	:: d_step { me.s == UP && me.seal == 0 && !me.old && ((!me.epCur && concerns) || (ld == 0 && me.vLd != FREE) ||
		(ld == mine && !(me.vLd == OWN && me.ldCur)) || (ld != 0 && ld != mine && me.vLd != OTHER)) -> hear(_pid) }
	:: d_step { leader && leads && !me.old && me.vState != STARTED && membersNew -> hearMembers(_pid) }

	/* campaign, rebind */
	TXN(me.s == UP && me.vLd == FREE && !me.yields && ld == 0 && !me.dead,
		putLeader(_pid),
		me.vLd = OWN; me.ldCur = 1; me.here = 1; hearMembers(_pid))
	TXN(me.s == UP && me.vLd == OWN && !me.here && ld == mine && me.ldCur && !me.dead,
		lo = 0,
		me.here = 1; hearMembers(_pid))
	/* The pause after a resignation ends. To be sure that something follows
	 * (LIVE), it outlasts the way of the news, and ends where nobody led. */
#ifdef LIVE
	:: d_step { me.yields && me.s == UP && me.epCur && ownLease &&
		!could(0) && !could(1) && !could(2) && !could(3) && !could(4) && !could(5) ->
		for (i : 0 .. PROCS - 1) { n[i].yields = 0 };
		skip }
#else
	:: d_step { me.yields && me.s == UP -> me.yields = 0 }
#endif

	/* open: the first, or after a loss */
	TXN(leader && leads && sameEpoch &&
		((me.vState == NONE && stayers > 0) || (me.vState == SEALED && losses > 0)),
		openNext(_pid),
		hearEpoch(_pid))
	/* resign */
	TXN(leader && me.vState == SEALED && !inside && losses == 0 && ld != 0 && (me.ldCur || me.old),
		dropLeader(),
		me.vLd = FREE; forgetLead(_pid); me.yields = 1)
	/* seal: places (clearing the old ones with it changes nothing for a reader), seal */
	TXN(leader && me.vState == OPEN && stayers >= SIZE && !me.waits && leads && sameEpoch,
		putPlaces(_pid),
		me.seal = 1)
	TXN(me.s == UP && me.seal == 1 && leads && sameEpoch && sealUnchanged,
		sealIt(_pid),
		hearEpoch(_pid); me.seal = 0; me.nonce = 0)
	:: d_step { me.s == UP && me.seal != 0 && !(leads && sameEpoch && sealUnchanged) ->
		me.seal = 0; me.nonce = (leads && sameEpoch -> me.nonce : 0); me.waits = !unchanged }
	/* go */
	TXN(leader && me.vState == SEALED && losses == 0 && inside && me.vp == (1 << SIZE) - 1 && me.joined == me.vNonce &&
		leads && sameEpoch && goUnchanged && goVoid,
		checkGo(me.vNonce); putEpoch(me.vN, me.vNonce, STARTED),
		hearEpoch(_pid); goes(_pid))

	/* post; also of a node that has given up and not left yet */
	TXN(me.s == UP && me.joined != 0 && me.vNonce == me.joined && me.vState == SEALED && me.pb != 1 && !me.dead &&
		postLease && postEpoch,
		me.pb = 1,
		skip)

#ifdef QUIT
	/* give up: its time ran out */
	:: d_step { alive(_pid) && me.app == JOINS && fault -> faults++; me.app = OUT; me.gaveUp = 1 }
	:: d_step { alive(_pid) && me.app == ROUND && fault -> faults++;
		if
		:: noResult ->
			if
			:: ownLease -> mk[me.slot] = mine + LEFT; putMember(_pid)
			:: else
			fi;
			if
#ifdef MUT_VOID_LEASE
			:: eNonce == me.joined && ownLease -> eVoid = 1
#else
			:: eNonce == me.joined -> eVoid = 1
#endif
			:: else
			fi;
			me.app = OUT; me.gaveUp = 1
		:: else -> starts(_pid)
		fi }
#ifdef BLIND /* it cannot ask any more */
	:: d_step { alive(_pid) && me.app == ROUND && fault -> faults++; me.app = OUT; me.gaveUp = 1 }
#endif
	/* leave */
	:: d_step { alive(_pid) && me.app == OUT ->
		if
		:: ownLease ->
			mk[me.slot] = mine + LEFT; putMember(_pid);
			if
			:: me.vLd == OWN -> putLeader(_pid)
			:: else
			fi
		:: else
		fi;
		forgetLead(_pid); me.s = STOPPED }
	:: d_step { me.s == STOPPED -> leaseGone(_pid); ends(_pid, GONE); beginIn(me.slot) }
#endif

	/* leases that nobody keeps alive run out, also those of a process that has ended */
#define oldMember (mk[me.slot] % LEFT == mine && mo[me.slot])
#define oldLeader (ld == mine && lo)
#define oldPost   (me.pb == 2)
	:: d_step { oldMember || oldLeader || oldPost ->
		if
		:: oldMember -> dropMember(me.slot)
		:: else
		fi;
		if
		:: oldLeader -> dropLeader()
		:: else
		fi;
		if
		:: oldPost -> me.pb = 0;
			if
			:: me.s == ENDED -> me.joined = 0; me.rank = 0
			:: else
			fi
		:: else
		fi }

	/* faults */
#ifdef CRASH
	:: d_step { alive(_pid) && fault -> faults++; oldLease(_pid); ends(_pid, GONE); beginIn(me.slot) }
#endif
#ifdef BESIDE
	:: d_step { alive(_pid) && fault -> faults++; beginIn(me.slot) }
#endif
#ifdef PAUSE
	:: d_step { me.s == UP && ownLease && fault -> faults++; leaseGone(_pid); me.dead = 1 }
#endif
	od
}

active proctype World() {
end:	do
#ifdef WIPE
	:: d_step { fault && !someRuns && eState != STARTED -> faults++;
		for (i : 0 .. NODES - 1) { mk[i] = 0; mo[i] = 0 }
		dropLeader(); eN = 0; eNonce = 0; eState = NONE; eVoid = 0;
		clearPlaces();
		sealedOnce = 0;
		for (i : 0 .. PROCS - 1) {
			n[i].pb = 0; n[i].epCur = 0; n[i].ldCur = 0; n[i].dirty = 0;
			if
			:: n[i].s == UP || n[i].s == DEPOSES -> n[i].dead = 1; n[i].old = 1
			:: else
			fi
		};
		skip }
#endif
	:: timeout -> assert(wellEnded); break
	od
}
