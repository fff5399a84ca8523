package hangs

import "syscall"

// storeKinds are jobs whose store cannot be reached, or does not answer.
func storeKinds() []kind {
	dropped := kind{
		name:   "store-dropped",
		at:     nothing,
		before: func(b *bed) { b.drops(0, "iifname eth0 tcp dport "+port) },
		want:   want{state: "hung", cause: "store.dropped", nodes: "host0|host1|host0,host1"},
	}
	// Under launch this is no hang: peer.port refuses to start.
	byEnv := dropped.named("store-dropped-env").by(env)
	byEnv.at = "0,1,2,3:init"
	workers := kind{name: "second-store-dropped", how: c10d, at: "0,1,2,3:init", want: dropped.want,
		before: func(b *bed) { b.drops(0, "iifname eth0 tcp dport != "+endpoint+" tcp dport 1024-65535 "+syn) }}
	named := kind{name: "store-name", at: nothing, before: func(b *bed) {
		b.lab.Hosts[0].Etc("hosts", "127.0.0.1 localhost\n10.77.0.1 host0 head\n10.77.0.2 host1\n")
	}, start: func(b *bed) {
		b.startOn(0, "--master_addr", "head")
		b.startOn(1, "--master_addr", "head")
	}, want: want{state: "hung", cause: "store.name", nodes: "host1"}}
	dead := kind{name: "store-host-dead", at: nothing, start: func(b *bed) {
		b.startOn(0, "--master_addr", "10.77.0.99")
		b.startOn(1, "--master_addr", "10.77.0.99")
	}, want: want{state: "hung", cause: "store.dropped"}}
	noHost := kind{name: "endpoint-is-no-host", how: c10d, at: nothing, start: func(b *bed) {
		b.startOn(0, "--rdzv_conf", "is_host=0")
		b.startOn(1, "--rdzv_conf", "is_host=0")
	}, want: want{state: "hung|open", cause: "store.refused"}}
	firstNever := kind{name: "first-rank-never", how: env, at: "1,2,3:init 0:-", start: func(b *bed) {
		for r := 1; r < 4; r++ {
			b.rank(r/2, r)
		}
	}, want: want{state: "hung|open", cause: "store.refused|rank.gone|rank.absent"}}
	return append([]kind{
		dropped.always().seenBy(1, "store.dropped"), byEnv, dropped.named("store-dropped-torch-1.13").aged(),
		workers, named, dead, noHost, firstNever,
	}, heldKinds()...)
}

// heldKinds are jobs whose port is held by a process that does not answer, or by another job.
func heldKinds() []kind {
	silent := kind{name: "store-silent", at: nothing, over: []int{0}, before: func(b *bed) {
		b.servesAt(0, "silent", port)
	}, want: want{state: "hung", cause: "store.silent|store.foreign", nodes: "host0|host1|"}}
	deaf := silent.named("store-deaf")
	deaf.before = func(b *bed) { b.servesAt(0, "deaf", port) }
	foreign := silent.named("store-foreign")
	foreign.before = func(b *bed) { b.servesAt(0, "store", port) }
	foreign.want.cause = "store.foreign"
	elsewhere := kind{name: "store-silent-elsewhere", how: env, spare: 1, at: "0,1,2,3:init", before: func(b *bed) {
		b.servesAt(2, "silent", port)
	}, start: func(b *bed) {
		for r := range 4 {
			b.rank(r/2, r, "MASTER_ADDR=10.77.0.3")
		}
	}, want: want{state: "hung", cause: "store.silent|store.foreign"}}
	stop := kind{name: "store-stopped", args: "--gate before", at: "0,1,2,3:at_gate", then: "0,1,2,3:init",
		strike: func(b *bed) {
			b.signal(syscall.SIGSTOP, b.runs[0].cmd.Process.Pid)
			b.open("before")
		}, want: want{state: "hung", cause: "store.stopped", nodes: "host0"}}
	stop = stop.seenBy(1, "store.silent|store.stopped")
	stop.want.alone.want.ranks = ""
	byRank := kind{name: "store-stopped-env", how: env, args: "--odd 3 --before wait_gate", at: late, then: "0,1,2,3:init",
		strike: func(b *bed) {
			b.signal(syscall.SIGSTOP, b.pid(0))
			b.open("go")
		}, want: want{state: "hung", cause: "rank.stopped|store.stopped", ranks: "0|", nodes: "host0"}}
	return []kind{silent, deaf, foreign, elsewhere, stop, stop.named("store-stopped-launch").by(launch), byRank}
}
