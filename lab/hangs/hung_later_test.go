package hangs

import (
	"strconv"
	"strings"
	"syscall"
)

// odd is a job whose rank 3 does something else after the first step.
func odd(name, what, cause string) kind {
	return kind{
		name: name, args: "--odd 3 --after " + what, at: "0,1,2:step 3:odd",
		want: want{state: "hung|open", cause: cause, ranks: "3", nodes: "host1"},
	}
}

// laterKinds are jobs of which a rank does not take part in a collective of the others.
func laterKinds() []kind {
	halt := odd("stopped", "halt", "rank.stopped").state("hung")
	left := odd("left", "sleep", "rank.left")
	left.want.stack = true
	first := left.named("left-before-the-first-step").with("--first")
	first.at = "0,1,2:joined 3:odd"
	lazy := halt.named("stopped-lazy")
	lazy.gloo = true
	lazy.env = []string{"TORCH_GLOO_LAZY_INIT=1"}
	subset := odd("subset", "subset", "group.subset").of("0", "1,2,3:step 0:odd", "host0|").state("hung")
	subset.args, subset.gloo = "--odd 0 --after subset", true
	key := odd("key", "key", "store.key").state("hung")
	key.want.stack = true
	failed := odd("failed-later", "fail_caught", "rank.failed|rank.thread|rank.left")
	failed.at = "0,1,2:step 3:failed"
	mismatch := func(name, what string) kind {
		k := odd(name, what, "collective.mismatch").state("hung|open")
		k.want.ranks = "3|"
		k.want.nodes = "host1|"
		k.want.stack = true
		return k
	}
	hold := mismatch("mismatch-root-left", "broadcast")
	hold.want.cause = "collective.mismatch|rank.left"
	size := mismatch("mismatch-size", "other_size").with("--numel 1000000 --keep")
	size.at, size.over, size.gloo = "", some, true
	size.want.cause = "collective.idle|collective.mismatch|peer.ended|rank.failed"
	ring := odd("ring", "ring", "collective.crossed").of("0,1,2,3", "0,1,2,3:odd", "").state("hung").
		withArgs("--odd 0,1,2,3 --after ring")
	ring.want.ranks, ring.want.stack = "", true
	read := odd("storage-later", "read", "rank.storage").state("hung").onPath(shard).struck(stopStorage)
	traced := left.named("traced-later").state("hung").struck(func(b *bed) { b.traces(b.pid(3)) })
	traced.want.cause = "rank.traced"
	return []kind{
		halt.always(), halt.named("stopped-launch").by(launch), halt.named("stopped-torch-1.13").aged(),
		halt.named("stopped-large").with("--numel 10000000"), lazy,
		halt.named("stopped-two").of("0,3", "1,2:step 0,3:odd", "host0,host1").withArgs("--odd 0,3 --after halt"),
		left.always(), first, left.named("left-launch").by(launch), left.named("left-torch-1.13").aged(),
		odd("lock-later", "lock", "rank.lock|rank.left"), read, traced, failed, key,
		mismatch("mismatch", "barrier"), mismatch("mismatch-launch", "barrier").by(launch),
		mismatch("mismatch-gather", "gather"), hold, size, subset, ring,
	}
}

func (k kind) withArgs(args string) kind { k.args = args; return k }

// endKinds are jobs of which something ends, and others wait for it; and mpirun.
func endKinds() []kind {
	chain := kind{name: "peer-ended", how: env, args: "--odd 0,1,2,3 --after chain --keep", over: some,
		at: "0,1:odd 2:failed 3:odd", want: want{state: "hung", cause: "peer.ended|rank.gone|rank.failed", ranks: "3|2"}}
	exit := kind{name: "exit-barrier", args: "--odd 2,3 --one-step --linger", at: "0,1:trained 2,3:lingers",
		want: want{state: "hung|open|slow", cause: "exit.barrier", nodes: "host0|host1|"}}
	daemon := kind{name: "mpi-daemon", at: nothing, start: func(b *bed) {
		b.mpirun("sleep 3600; : ")
	}, want: want{state: "hung|open", cause: "mpi.daemon", from: []int{0}}}
	return []kind{chain, exit, exit.named("exit-barrier-launch").by(launch), daemon.always()}
}

// crowdKinds are jobs of more ranks or nodes, of more than one cause, and two jobs.
func crowdKinds() []kind {
	eight := hangs("eight-ranks", "lock", "rank.lock").of("5", "0,1,2,3,4,6,7:init 5:odd", "host2")
	eight.hosts = 4
	wide := hangs("eight-on-a-node", "sleep", "rank.before-init").of("6", "0,1,2,3,4,5,7:init 6:odd", "host0")
	wide.hosts, wide.per = 1, 8
	one := hangs("one-node", "lock", "rank.lock").of("1", "0:init 1:odd", "host0")
	one.hosts = 1
	both := hangs("asleep-and-stopped", "sleep", "rank.stopped").of("1,3", "0,2:init 1,3:odd", "host0|host1|host0,host1")
	both.want.state, both.want.ranks = "hung", "3"
	both.strike = func(b *bed) { b.signal(syscall.SIGSTOP, b.pid(3)) }
	two := hangs("two-jobs", "lock", "rank.lock").state("hung")
	two.want.others = true
	two.start = func(b *bed) {
		for i := range 2 {
			b.startOn(i)
		}
		for i := range 2 { // the same command on the same hosts, healthy, at another port
			line := []string{"torchrun", "--nproc_per_node", "1", "--nnodes", "2", "--node_rank", strconv.Itoa(i),
				"--master_addr", master, "--master_port", "29600"}
			b.at(i, []string{"JOB=other "}, append(line, strings.Fields(b.job()[0])...)...)
		}
	}
	return []kind{eight, wide, one, both, two}
}
