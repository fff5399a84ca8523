package hangs

import "slices"

// hungKinds are starts that hang.
func hungKinds() []kind {
	return slices.Concat(waitingKinds(), brokenKinds(), absentKinds(), differentKinds(), storeKinds(),
		meshKinds(), pathKinds(), laterKinds(), endKinds(), crowdKinds(), mpiKinds(), sightKinds())
}

// hangs is a job whose rank 3 does something before init_process_group that never ends, by a function of stuck.py.
func hangs(name, what, cause string) kind {
	return kind{
		name: name, args: "--odd 3 --before " + what, at: late,
		want: want{state: "hung|open", cause: cause, ranks: "3", nodes: "host1"},
	}
}

// of sets the odd ranks, the phases that follow from them, and the nodes to blame.
func (k kind) of(odd, at, nodes string) kind {
	k.args = "--odd " + odd + " " + k.args[len("--odd 3 "):]
	k.at, k.want.ranks, k.want.nodes = at, odd, nodes
	return k
}

func (k kind) always() kind { k.short = true; return k }

func (k kind) state(s string) kind { k.want.state = s; return k }

// seenBy adds what one healthy host must say without the others: at least that these ranks are missing.
func (k kind) seenBy(host int, causes string) kind {
	w := want{state: "hung|open", cause: causes, ranks: k.want.ranks}
	k.want.alone = &alone{host: host, want: w}
	return k
}

// waitingKinds are jobs of which a rank lives, and waits for something else than torch.
func waitingKinds() []kind {
	const still, away = "rank.before-init", "rank.before-init|rank.absent"
	sleep := hangs("sleep", "sleep", still)
	lock := hangs("lock", "lock", "rank.lock").state("hung")
	return []kind{
		sleep.seenBy(0, away),
		sleep.named("sleep-first-rank").of("0", "1,2,3:init 0:odd", "host0").seenBy(1, away),
		sleep.named("sleep-node").of("2,3", "0,1:init 2,3:odd", "host1").seenBy(0, away),
		sleep.named("sleep-both-nodes").of("1,3", "0,2:init 1,3:odd", "host0,host1"),
		sleep.named("sleep-env").by(env),
		sleep.named("sleep-c10d").by(c10d).seenBy(0, away),
		sleep.named("sleep-launch").by(launch).seenBy(0, away),
		sleep.named("sleep-torch-1.13").aged(),
		lock.always().seenBy(0, away),
		lock.named("lock-launch").by(launch),
		hangs("lock-self", "lock_self", "rank.lock").by(c10d),
		hangs("queue", "empty_queue", "rank.lock|"+still),
		hangs("forked-lock", "forked_lock", "rank.child|rank.lock").state("hung"),
		hangs("killed-reader", "killed_reader", "rank.child").state("hung"),
		hangs("killed-holder", "killed_holder", "rank.child").state("hung"),
		hangs("full-pipe", "full_pipe", "rank.child").state("hung"),
		hangs("event-loop", "event_loop", "rank.events").state("hung"),
		hangs("file-lock", "file_lock", "rank.lock|rank.storage|"+still).onPath((*bed).lockedFile),
		hangs("child", "child", still),
		hangs("service", "service", still).onPath(func(b *bed) string { return b.serves(0, "silent") }),
		hangs("fifo", "fifo", "rank.storage|"+still).onPath(newPipe),
		hangs("vfork", "vfork", "rank.vfork|rank.storage|"+still).onPath(newPipe),
		hangs("interpreter-lock", "gil", still+"|rank.lock"),
	}
}

func (k kind) aged() kind { k.old = true; return k }

// brokenKinds are jobs of which a rank cannot go on: its storage does not answer, it has failed, is stopped or
// has ended.
func brokenKinds() []kind {
	const gone, away = "rank.gone|rank.absent", "rank.gone|rank.absent|rank.before-init"
	read := hangs("storage-read", "read", "rank.storage").state("hung").onPath(shard).struck(stopStorage)
	failed := hangs("failed", "fail_caught", "rank.failed|rank.thread").state("hung")
	failed.at = "0,1,2:init 3:failed"
	halt := hangs("stopped-early", "halt", "rank.stopped").state("hung")
	ends := hangs("ended", "end", gone).state("hung")
	ends.want.nodes = ""
	traced := hangs("traced", "sleep", "rank.traced").state("hung").struck(func(b *bed) {
		b.traces(b.pid(3))
	})
	dies := ends.named("died-env").by(env)
	dies.args, dies.over = "--odd 3 --before die", some
	never := kind{name: "never-env", how: env, at: "0,1,2:init 3:-", want: ends.want, start: func(b *bed) {
		for r := range 3 {
			b.rank(r/2, r)
		}
	}}
	raises := kind{name: "raised-env", how: env, args: "--odd 3 --before fail", at: "0,1,2:init 3:failed", over: some,
		want: ends.want}
	return []kind{
		read,
		read.named("storage-read-launch").by(launch),
		hangs("storage-look-up", "look_up", "rank.storage").state("hung").onPath(stoppedFolder),
		failed.always().seenBy(0, away+"|rank.failed"),
		failed.named("failed-launch").by(launch),
		failed.named("failed-env").by(env),
		halt.seenBy(0, away+"|rank.stopped"),
		halt.named("stopped-early-both-nodes").of("1,3", "0,2:init 1,3:odd", "host0,host1"),
		halt.named("stopped-early-torch-1.13").aged(),
		traced,
		ends.seenBy(0, away),
		ends.named("ended-launch").by(launch),
		dies, never, raises,
		never.named("never-env-alone").seenBy(0, away),
	}
}

func (k kind) struck(strike func(*bed)) kind { k.strike = strike; return k }
