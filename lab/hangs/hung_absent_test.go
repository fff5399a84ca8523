package hangs

import (
	"strconv"
	"syscall"
)

// nothing is for jobs of which no rank has begun.
const nothing = "0,1,2,3:-"

// only starts the job on some of its hosts.
func only(hosts ...int) func(*bed) {
	return func(b *bed) {
		for _, i := range hosts {
			b.startOn(i)
		}
	}
}

// absentKinds are jobs of which a node does not join, or has left.
func absentKinds() []kind {
	missing := kind{name: "node-missing", at: nothing, start: only(0),
		want: want{state: "hung|open", cause: "node.missing", nodes: "node 1|1|", from: []int{0}}}
	first := kind{name: "first-node-missing", at: nothing, start: only(1),
		want: want{state: "hung|open", cause: "store.refused|node.missing", from: []int{1}}}
	second := missing.named("second-of-three-missing")
	second.hosts, second.start, second.want.from = 3, only(0, 2), []int{0, 2}
	byC10d := second.named("node-missing-c10d").by(c10d)
	byC10d.want.nodes = ""
	ended := kind{name: "torchrun-ended", args: "--odd 3 --before fail", at: "0,1:init", over: []int{1},
		want: want{state: "hung", cause: "node.ended", nodes: "host1|node 1"}}
	killed := kind{name: "torchrun-killed", args: "--odd 3 --before sleep", at: late, then: "0,1,2:init", over: []int{1},
		want: ended.want, strike: func(b *bed) {
			b.signal(syscall.SIGKILL, b.runs[1].cmd.Process.Pid, b.pid(2), b.pid(3))
		}}
	killed.want.cause = "node.ended|rank.gone|rank.absent"
	return []kind{
		missing.always(), missing.named("node-missing-torch-1.13").aged(),
		missing.named("node-missing-launch").by(launch),
		first, first.named("first-node-missing-torch-1.13").aged(),
		second, byC10d,
		ended.seenBy(0, "node.ended|rank.before-init|rank.absent|rank.gone"),
		ended.named("torchrun-ended-launch").by(launch),
		ended.named("torchrun-ended-c10d").by(c10d).elastic(),
		killed,
	}
}

// elastic allows any end of the commands, since torchrun may start again.
func (k kind) elastic() kind {
	k.over = some
	k.want.cause += "|rank.absent|node.missing"
	return k
}

// differentKinds are jobs whose nodes or ranks do not agree on the job.
func differentKinds() []kind {
	duplicate := kind{name: "duplicate-rank", how: env, at: "0,1,2:init", want: want{state: "hung",
		cause: "rank.duplicate", ranks: "2", nodes: "host1|"}, start: func(b *bed) {
		for _, r := range []int{0, 1, 2, 2} {
			b.rank(r/2, r)
		}
	}}
	world := func(odd int, phases string) kind {
		at := want{state: "hung", cause: "world.differs", ranks: strconv.Itoa(odd), nodes: "host" + strconv.Itoa(odd/2)}
		return kind{name: "world-differs-" + strconv.Itoa(odd), how: env, at: phases, want: at,
			start: func(b *bed) {
				for r := range 4 {
					size := 4
					if r == odd {
						size = 8
					}
					b.rank(r/2, r, "WORLD_SIZE="+strconv.Itoa(size))
				}
			}}
	}
	agents := func(name, cause string, first, second []string) kind {
		return kind{name: name, at: nothing, want: want{state: "hung", cause: cause}, start: func(b *bed) {
			b.startOn(0, first...)
			b.startOn(1, second...)
		}}
	}
	ids := agents("ids-differ", "rdzv.ids-differ", []string{"--rdzv_id", "j1"}, []string{"--rdzv_id", "j2"}).by(c10d)
	third := agents("two-second-nodes", "node.duplicate|node.missing", []string{"--nnodes", "3"},
		[]string{"--nnodes", "3"})
	third.hosts, third.start = 3, func(b *bed) {
		b.startOn(0)
		b.startOn(1)
		b.startOn(2, "--node_rank", "1")
	}
	zero := []string{"--node_rank", "0"}
	return []kind{
		duplicate, ids,
		world(0, fourIn), world(3, "0,1,3:init 2:"), // rank 2 may pass: it dials rank 3, which has not its keys

		agents("nodes-differ", "nnodes.differ", []string{"--nnodes", "3"}, []string{"--nnodes", "2"}),
		agents("two-first-nodes", "node.duplicate", zero, zero),
		third,
	}
}
