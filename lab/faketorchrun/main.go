// Command faketorchrun replaces torchrun in end-to-end tests. It takes the options of a static
// rendezvous, and waits for the other nodes at a store that speaks the beginning of torch's
// TCPStore protocol. Then it prints one line for each rank that torchrun would have started, and
// ends. It starts in milliseconds where torch needs seconds.
//
// FAKE_EXIT is the exit status after all nodes joined; FAKE_LINGER (a Go
// duration) is how long the node "trains" before.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// joinLimit is how long nodes wait for each other; it ends the processes of a failed test.
const joinLimit = 60 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(stderr, "faketorchrun:", err)
		return 1
	}
	n, err := parse(args)
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	if n.nodes > 1 {
		leave, err := join(ctx, n)
		if err != nil {
			return fail(err)
		}
		defer leave()
	}
	for local := range n.nproc {
		fmt.Fprintf(stdout, "rank %d of %d on node %d\n", n.rank*n.nproc+local, n.nodes*n.nproc, n.rank)
	}
	if d, err := time.ParseDuration(getenv("FAKE_LINGER")); err == nil {
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-time.After(d):
		}
	}
	code, _ := strconv.Atoi(getenv("FAKE_EXIT"))
	return code
}

// node is the values of the options.
type node struct {
	nodes, rank, nproc int
	addr               string // host:port of the store, on node rank 0
}

// parse reads the options as torchrun 1.13 does: --name value or --name=value.
// A dash in a name counts as an underscore, as in torchrun 2.0.
func parse(args []string) (node, error) {
	opt := map[string]string{"nnodes": "1", "nproc_per_node": "1", "node_rank": "0",
		"master_addr": "127.0.0.1", "master_port": "29500", "rdzv_backend": "static"}
	for i := 0; i < len(args); i++ {
		name, long := strings.CutPrefix(args[i], "--")
		if !long {
			break // the script
		}
		name, value, joined := strings.Cut(name, "=")
		if !joined {
			if i++; i == len(args) {
				return node{}, fmt.Errorf("option --%s has no value", name)
			}
			value = args[i]
		}
		opt[strings.ReplaceAll(name, "-", "_")] = value
	}
	var n node
	for name, into := range map[string]*int{"nnodes": &n.nodes, "nproc_per_node": &n.nproc, "node_rank": &n.rank} {
		v, err := strconv.Atoi(opt[name])
		if err != nil {
			return node{}, fmt.Errorf("--%s is %q, not a number", name, opt[name])
		}
		*into = v
	}
	n.addr = opt["master_addr"] + ":" + opt["master_port"] // as torchrun joins them, IPv6 or not
	if e := opt["rdzv_endpoint"]; e != "" {
		n.addr = e
	}
	if n.nodes == 1 {
		return n, nil
	}
	// launch promises its command an address that needs no DNS, and a fixed rank.
	if opt["rdzv_backend"] != "static" {
		return node{}, fmt.Errorf("rendezvous %q of several nodes is not static", opt["rdzv_backend"])
	}
	if _, err := netip.ParseAddrPort(n.addr); err != nil {
		return node{}, fmt.Errorf("master address %q is not an IP address and port", n.addr)
	}
	if n.rank < 0 || n.rank >= n.nodes {
		return node{}, fmt.Errorf("node rank %d of %d nodes", n.rank, n.nodes)
	}
	return n, nil
}

// join waits for all nodes at rank 0's store; leave ends the store once every node has seen all others.
func join(ctx context.Context, n node) (leave func(), err error) {
	leave = func() {}
	if n.rank == 0 {
		s, err := serve(n.addr, n.nodes)
		if err != nil {
			return nil, fmt.Errorf("open the store: %w", err)
		}
		leave = func() { s.await(ctx); s.ln.Close() }
	}
	c, err := dial(ctx, n.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the store %s: %w", n.addr, err)
	}
	defer c.Close() // reports to the store that this node has seen all others
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	me := strconv.Itoa(n.rank)
	twice, err := ask(c, addOne(me))
	if err != nil {
		return nil, fmt.Errorf("add %q: %w", me, err)
	}
	if twice > 1 {
		return nil, errors.New("a second node has rank " + me)
	}
	for {
		joined, err := ask(c, []byte{opGetNumKeys})
		if err != nil {
			return nil, fmt.Errorf("wait for %d nodes: %w", n.nodes, err)
		}
		if joined >= int64(n.nodes) {
			return leave, nil
		}
		time.Sleep(retry)
	}
}
