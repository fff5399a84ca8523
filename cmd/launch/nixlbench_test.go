package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"launch/internal/launcher"
	"launch/rendezvous"
)

// nixlbench replaces NIXL's, of which no package has the program: lab/e2e tries that one where it is installed. It
// counts itself into an etcd with the same keys (benchmark/nixlbench/src/runtime/etcd/etcd_rt.cpp). Some options are
// its own: --size of all processes; --ends: so late does rank 0 see that all have finished; --leave: it is killed, or
// once alone if the value is a file that is not there yet.
func nixlbench(args []string) int {
	opt := map[string]string{"etcd_endpoints": "http://localhost:2379", "benchmark_group": "default"}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		opt[name] = value
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cli, err := rendezvous.Connect(ctx, rendezvous.Store{Endpoints: strings.Split(opt["etcd_endpoints"], ",")}, nil)
	if err != nil {
		return failed(err)
	}
	defer cli.Close()
	node, _ := strconv.Atoi(os.Getenv("NODE_RANK"))
	time.Sleep(time.Duration(3-node) * 100 * time.Millisecond) // the lower its node rank, the later it counts itself
	prefix := launcher.NIXLBench{Group: opt["benchmark_group"]}.Prefix()
	rank, err := counted(ctx, cli, prefix)
	if err != nil {
		return failed(err)
	}
	fmt.Printf("rank %d of node %s\n", rank, os.Getenv("NODE_RANK"))
	if _, err := os.Stat(opt["leave"]); opt["leave"] != "" && err != nil {
		_ = os.WriteFile(opt["leave"], nil, 0o600)
		return 1
	}
	for {
		keys, err := rendezvous.Foreign(ctx, cli, prefix+"/size")
		if err != nil {
			return failed(err)
		}
		if n := keys[prefix+"/size"]; n == "" || n == opt["size"] {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	gone := []string{prefix + "/"}
	if late, _ := time.ParseDuration(opt["ends"]); rank == 0 {
		time.Sleep(late)
		gone = append(gone, prefix+"barrier/")
	}
	for _, p := range gone {
		if _, err := rendezvous.Purge(ctx, cli, p); err != nil {
			return failed(err)
		}
	}
	return 0
}

// counted counts this process, under a lock, and returns its rank. The lock is a directory, and not a key.
func counted(ctx context.Context, cli *rendezvous.Client, prefix string) (rank int, err error) {
	lock := "lock-" + strings.ReplaceAll(prefix, "/", "-")
	for os.Mkdir(lock, 0o700) != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	defer os.Remove(lock)
	keys, err := rendezvous.Foreign(ctx, cli, prefix+"/size")
	if err != nil {
		return 0, err
	}
	rank, _ = strconv.Atoi(keys[prefix+"/size"])
	for key, value := range map[string]string{"/size": strconv.Itoa(rank + 1), "barrier/" + strconv.Itoa(rank): "1"} {
		if _, err := cli.Put(ctx, prefix+key, value); err != nil {
			return 0, err
		}
	}
	return rank, nil
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
