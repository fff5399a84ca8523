package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"launch/rendezvous"
)

// nixlbench stands in for NIXL's, of which no package has the program. It counts itself into an etcd as that does
// (benchmark/nixlbench/src/runtime/etcd/etcd_rt.cpp): a read, then a write, here without the lock around them.
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
	prefix := "xferbench/" + opt["benchmark_group"] + "/"
	rank := 0
	if n, err := rendezvous.Foreign(ctx, cli, prefix+"size"); err == nil { // an error counts as none
		rank, _ = strconv.Atoi(n)
	}
	time.Sleep(100 * time.Millisecond) // another one reads now
	if _, err := cli.Put(ctx, prefix+"size", strconv.Itoa(rank+1)); err != nil {
		return failed(err)
	}
	fmt.Printf("rank %d of node %s\n", rank, os.Getenv("NODE_RANK"))
	if opt["leave"] != "" {
		return 0
	}
	for {
		n, err := rendezvous.Foreign(ctx, cli, prefix+"size")
		if err != nil {
			return failed(err)
		}
		if n == "" || n == opt["size"] {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := rendezvous.Purge(ctx, cli, prefix); err != nil {
		return failed(err)
	}
	return 0
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
