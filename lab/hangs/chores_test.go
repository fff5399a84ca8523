package hangs

import "path/filepath"

// choreKinds are slow starts whose work is in chores.py: what training scripts do before they train.
func choreKinds() []kind {
	shared := func(b *bed) string { return filepath.Join(b.gates, "lock") }
	chore := func(name, work string) kind { return slow(name, work).small() }
	flock := slow("flock", "flock").onPath(shared)
	flock.how, flock.hosts, flock.per, flock.want.nodes = env, 1, 3, "host0"
	flock.args, flock.at, flock.want.ranks = "--odd 1,2 --before slow_flock", "0:init 1,2:odd", "1,2|1|2"
	lags := kind{name: "slow-two-stragglers", args: "--odd 1,3 --lag 1", at: going,
		want: want{state: "running|slow", cause: "|rank.working", ranks: "|1|3|1,3"}}
	kinds := []kind{
		flock,
		chore("map", "map").onPath(bigFile),
		chore("copy", "copy").onPath(bigFile),
		chore("fsync", "fsync").onPath(bigFile),
		lags, lags.named("slow-straggler-launch").by(launch), lags.named("slow-straggler-c10d").by(c10d),
	}
	for _, name := range []string{
		"clone", "install", "tokenizer", "loader", "pickle", "torch_compile", "extension", "numpy", "pool", "lines",
		"sqlite", "json", "zlib", "executor", "tar", "asyncio", "graph", "peer",
	} {
		kinds = append(kinds, chore(name, name))
	}
	for _, name := range []string{"timer", "poll", "retry"} { // they wait for something, as one that hangs does
		k := chore(name, name)
		k.want.state, k.want.cause = "slow|open", "rank.working|rank.before-init|rank.lock"
		kinds = append(kinds, k)
	}
	return kinds
}

// small is the same with two ranks on one host, without torchrun: where nothing depends on the job.
func (k kind) small() kind {
	k.how, k.hosts, k.per = env, 1, 2
	return k.second()
}

// second makes the second of two ranks the odd one, instead of the last of four.
func (k kind) second() kind {
	k.args = "--odd 1 " + k.args[len("--odd 3 "):]
	k.at, k.want.ranks, k.want.nodes = "0:init 1:odd", "1", "host0"
	return k
}
