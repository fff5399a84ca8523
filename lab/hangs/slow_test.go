package hangs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// late is where ranks are while rank 3 works before init_process_group.
const late = "0,1,2:init 3:odd"

// slow is a start in which rank 3 works before init_process_group, in the way of slow.py.
func slow(name, work string) kind {
	return kind{
		name: "slow-" + name, args: "--odd 3 --before slow_" + work, at: late,
		want: want{state: "slow", cause: "rank.working", ranks: "3", nodes: "host1"},
	}
}

func (k kind) by(how string) kind { k.how = how; return k }

func (k kind) named(name string) kind { k.name = name; return k }

// with adds to the arguments of the job.
func (k kind) with(args string) kind { k.args = strings.TrimSpace(k.args + " " + args); return k }

// onPath prepares a path, and gives it to the job.
func (k kind) onPath(prepare func(*bed) string) kind {
	k.before = func(b *bed) { b.kind.args += " --path " + prepare(b) }
	return k
}

// slowKinds are starts that make progress, and end well.
func slowKinds() []kind { return append(longKinds(), choreKinds()...) }

func longKinds() []kind {
	sleeps := slow("sleep", "sleep")
	// Nothing but its stack tells it from a hang.
	sleeps.want.state, sleeps.want.cause = "slow|open", "rank.working|rank.before-init"
	queue := slow("queue", "queue") // about 1 % of a core, which a rank that hangs may also use
	queue.want = sleeps.want
	all := slow("all-ranks", "hash")
	all.args, all.at = "--odd 0,1,2,3 --before slow_hash", "0,1,2,3:odd"
	all.want.ranks, all.want.nodes = "0,1,2,3", "host0,host1"
	node := slow("node", "hash")
	node.args, node.at, node.want.ranks = "--odd 2,3 --before slow_hash", "0,1:init 2,3:odd", "2,3"
	baton := slow("baton", "baton").onPath(func(b *bed) string { return filepath.Join(b.gates, "lock") })
	baton.args, baton.at = "--odd 2,3 --before slow_baton", node.at
	baton.want.ranks = "2,3|2|3"
	after := func(name, work string) kind {
		k := slow(name, work)
		k.args, k.at = "--odd 3 --after slow_"+work, "0,1,2:step 3:odd"
		k.want.state = "slow|running"
		return k
	}
	first := after("first-step", "hash").with("--first")
	first.at = "0,1,2:joined 3:odd"
	first.want.state = "slow"
	lags := kind{name: "slow-straggler", args: "--odd 3 --lag 1.5", at: going,
		want: want{state: "running|slow", cause: "|rank.working", ranks: "|3"}}
	hash := slow("hash", "hash")
	hash.short = true
	old := slow("torch-1.13", "hash")
	old.old = true
	return []kind{
		hash, sleeps, all, node, baton, first, lags, old,
		slow("hash", "hash").by(c10d).named("slow-c10d"),
		slow("hash", "hash").by(env).named("slow-env"),
		slow("hash", "hash").by(launch).named("slow-launch"),
		slow("read", "read").onPath(bigFile),
		slow("mount", "mount").onPath(slowMount),
		slow("compile", "compile"),
		slow("compile", "compile").by(launch).named("slow-compile-launch"),
		slow("build", "build"),
		slow("import", "import"),
		slow("scan", "scan").onPath(func(*bed) string { return "/usr" }),
		slow("download", "download").onPath(func(b *bed) string { return b.serves(0, "drips") }),
		slow("unpack", "unpack"),
		slow("memory", "memory"),
		slow("shuffle", "shuffle"),
		slow("thread", "thread"),
		slow("worker", "worker"), slow("survivor", "survivor"),
		queue,
		after("validation", "hash"),
		after("checkpoint", "write"),
		after("checkpoint", "write").by(launch).named("slow-checkpoint-launch"),
	}
}

// bigFile makes a file of 64 MB.
func bigFile(b *bed) string {
	path := filepath.Join(b.t.TempDir(), "checkpoint")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// slowMount mounts a folder of many files, on which every request takes a round trip.
func slowMount(b *bed) string {
	dir := b.t.TempDir()
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("shard%04d", i)), make([]byte, 10000), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	mount, _ := b.mounts(dir, "50ms")
	return mount
}
