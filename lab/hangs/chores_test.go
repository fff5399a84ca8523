package hangs

import "path/filepath"

// choreKinds are slow starts whose work is in chores.py: what training scripts do before they train.
func choreKinds() []kind {
	shared := func(b *bed) string { return filepath.Join(b.gates, "lock") }
	both := func(k kind) kind {
		k.args, k.at = "--odd 2,3 "+k.args[len("--odd 3 "):], "0,1:init 2,3:odd"
		k.want.ranks = "2,3|2|3"
		return k
	}
	lags := kind{name: "slow-two-stragglers", args: "--odd 1,3 --lag 1", at: going,
		want: want{state: "running|slow", cause: "|rank.working", ranks: "|1|3|1,3"}}
	kinds := []kind{
		both(slow("flock", "flock").onPath(shared)),
		slow("map", "map").onPath(bigFile),
		slow("copy", "copy").onPath(bigFile),
		slow("fsync", "fsync").onPath(bigFile),
		lags, lags.named("slow-straggler-launch").by(launch), lags.named("slow-straggler-c10d").by(c10d),
	}
	for _, name := range []string{
		"clone", "install", "tokenizer", "loader", "pickle", "torch_compile", "extension", "numpy", "pool", "lines",
		"sqlite", "json", "zlib", "executor", "tar", "asyncio", "graph", "peer",
	} {
		kinds = append(kinds, slow(name, name))
	}
	for _, name := range []string{"timer", "poll", "retry"} { // they wait for something, as one that hangs does
		k := slow(name, name)
		k.want.state, k.want.cause = "slow|open", "rank.working|rank.before-init|rank.lock"
		kinds = append(kinds, k)
	}
	return kinds
}
