package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"launch/internal/job"
)

// options are all that flags and LAUNCH_* say.
type options struct {
	job.Flags

	storeHost   string
	portRange   string
	joinTimeout time.Duration
	token       string

	skip, only         []string
	warnOnly, failFast bool
	dryRun, json       bool

	given map[string]bool // flags that stand on the line, against those from LAUNCH_*
}

// defaultJoinTimeout is long enough for the last of many nodes to boot and
// pull an image, and short enough that a night is not lost.
const defaultJoinTimeout = 10 * time.Minute

// defaultPortRange lies outside Linux's ephemeral range (32768-60999) and
// begins at torch's own port.
const defaultPortRange = "29500-29999"

// group is a heading of the help.
type group string

const (
	grpJob    group = "who and how many"
	grpCheck  group = "checks"
	grpStart  group = "start"
	grpOutput group = "output"
)

// flagTable is every flag, in the order of the help. Each has a variable
// LAUNCH_NAME.
func flagTable(o *options) []cli.Flag {
	str := func(g group, name, arg, usage string, to *job.Value[string]) cli.Flag {
		return &cli.GenericFlag{Name: name, Category: string(g), Usage: "`" + arg + "` " + usage, EnvVars: env(name), Value: &value{name: name, to: to, o: o}}
	}
	b := func(g group, name, usage string, to *bool) cli.Flag {
		return &cli.BoolFlag{Name: name, Category: string(g), Usage: usage, EnvVars: env(name), Destination: to}
	}
	return []cli.Flag{
		str(grpJob, "store", "WHERE", "where the nodes meet: HOST[:PORT] (that node hosts it) or http(s)://A:2379,B:2379 (an etcd that runs)", &o.Store),
		str(grpJob, "nnodes", "N", "number of nodes; else from the command line, Slurm or Kubernetes", &o.NNodes),
		str(grpJob, "node-rank", "R", "this node's rank, 0 to N-1; else from the scheduler, or by arrival", &o.NodeRank),
		str(grpJob, "job", "ID", "the job's name; else from --rdzv-id, the scheduler, or store and command", &o.Job),
		str(grpJob, "addr", "ADDR", "this node's address for its peers: an IP, a CIDR or an interface; else by the route to the store", &o.Addr),
		str(grpJob, "master-port", "PORT", "port of the job's own store on rank 0; else 29500 or the next free one", &o.MasterPort),
		&cli.StringFlag{Name: "port-range", Category: string(grpJob), Usage: "`LO-HI` where to look for a free port", EnvVars: env("port-range"), Value: defaultPortRange, Destination: &o.portRange},
		&cli.StringFlag{Name: "store-host", Category: string(grpJob), Usage: "`yes|no` whether this node hosts the store, where its address does not tell (NAT, a virtual IP)", EnvVars: env("store-host"), Destination: &o.storeHost},
		&cli.StringSliceFlag{Name: "skip", Category: string(grpCheck), Usage: "`ID` leave out a check (comma list)", EnvVars: env("skip")},
		&cli.StringSliceFlag{Name: "only", Category: string(grpCheck), Usage: "`ID` run only these checks (comma list)", EnvVars: env("only")},
		b(grpCheck, "warn-only", "start although a check failed", &o.warnOnly),
		&cli.DurationFlag{Name: "join-timeout", Category: string(grpStart), Usage: "`TIME` how long to wait for all nodes", EnvVars: env("join-timeout"), Value: defaultJoinTimeout, Destination: &o.joinTimeout},
		b(grpStart, "fail-fast", "end on all nodes when one is unfit, instead of waiting for another in its place", &o.failFast),
		b(grpStart, "keep-rdzv", "keep torchrun's own rendezvous, set right, instead of a static one", &o.KeepRdzv),
		str(grpStart, "as", "torchrun", "the command is a script that calls torchrun inside", &o.As),
		b(grpStart, "dry-run", "print what would be done; execute nothing, open no connection", &o.dryRun),
		b(grpOutput, "json", "JSON lines instead of text", &o.json),
	}
}

func env(name string) []string {
	return []string{"LAUNCH_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
}

// value is a flag that remembers whether the line or LAUNCH_* gave it.
type value struct {
	name string
	to   *job.Value[string]
	o    *options
}

// Set is called by the flag package for the line and for the variable.
func (v *value) Set(s string) error {
	*v.to = job.Value[string]{V: s, Set: true, From: job.Source{Tier: job.Explicit, Name: env(v.name)[0]}}
	if v.o.given[v.name] {
		v.to.From.Name = "--" + v.name
	}
	return nil
}

func (v *value) String() string {
	if v.to == nil {
		return ""
	}
	return v.to.V
}

// ports reads --port-range.
func (o *options) ports() (lo, hi int, err error) {
	if n, err := fmt.Sscanf(o.portRange, "%d-%d", &lo, &hi); n != 2 || err != nil || lo < 1 || hi > 65535 || lo > hi {
		return 0, 0, &job.Error{Code: exitUsage, What: fmt.Sprintf("--port-range %q is no range of ports", o.portRange), Fix: "--port-range " + defaultPortRange}
	}
	return lo, hi, nil
}

// hosts reads --store-host; nil: the address tells.
func (o *options) hosts() (*bool, error) {
	yes := o.storeHost == "yes"
	switch o.storeHost {
	case "", "auto":
		return nil, nil
	case "yes", "no":
		return &yes, nil
	}
	return nil, &job.Error{Code: exitUsage, What: fmt.Sprintf("--store-host is yes or no, not %q", o.storeHost)}
}
