package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/setting"
	"launch/rendezvous"
)

// options are all that flags and LAUNCH_* say.
type options struct {
	job.Flags

	storeHost    string
	portRange    string
	access       rendezvous.Access
	joinTimeout  time.Duration
	startTimeout time.Duration
	lastCall     time.Duration
	restarts     int
	token        string

	skip, only         []string
	warnOnly, failFast bool
	allPairs           bool
	thresholds         map[string]float64
	typed              list // --threshold
	checkDir           string
	local              bool   // of launch check
	measure            string // --bench
	textfile, html     string // of launch check
	interval           time.Duration
	server, full       bool // of launch bench, and what follows
	client, history    string
	benchPort, streams int
	rails              []string
	tcp, force         bool
	memory             string // --memory
	dryRun, json       bool
	watch              bool
	svg                string
	format             string // of launch env
	explain            bool
	record, recording  string // --record, --from

	given map[string]bool // flags that stand on the line, against those from LAUNCH_*
}

// defaultJoinTimeout is long enough for the last of many nodes to boot and
// pull an image, and short enough that a night is not lost.
const defaultJoinTimeout = 10 * time.Minute

// defaultLastCall is longer than nodes that were started together take to come
// one after the other, and short against a restart.
const defaultLastCall = 10 * time.Second

// defaultStartTimeout is longer than the minute that a node waits for rank 0's
// store at most, and than torch takes to load and make its first connections.
const defaultStartTimeout = 2 * time.Minute

// defaultPortRange lies outside Linux's ephemeral range (32768-60999) and
// begins at torch's own port.
const defaultPortRange = "29500-29999"

// defaultBenchPort is where --server and --client meet: beside the embedded
// store's, outside Linux's ephemeral range.
const defaultBenchPort = job.DefaultStorePort + 1

// group is a heading of the help.
type group string

const (
	grpJob    group = "who and how many"
	grpEtcd   group = "an external etcd (the ETCDCTL_* variables count too)"
	grpCheck  group = "checks"
	grpBench  group = "measuring"
	grpStart  group = "start"
	grpOutput group = "output"
)

// flagTable is every flag, in the order of the help. Each has a variable
// LAUNCH_NAME. A start takes all but what a subcommand prints by (startFlags).
func flagTable(o *options) []cli.Flag {
	str := func(g group, name, arg, usage string, to *setting.Value[string]) cli.Flag {
		return &cli.GenericFlag{Name: name, Category: string(g), Usage: "`" + arg + "` " + usage, EnvVars: env(name), Value: &value{name: name, to: to, o: o}}
	}
	acc := func(name, etcdctl, arg, usage string, to *string) cli.Flag {
		return &cli.StringFlag{Name: name, Category: string(grpEtcd), Usage: "`" + arg + "` " + usage, EnvVars: append(env(name), etcdctl), Destination: to}
	}
	return slices.Concat([]cli.Flag{
		str(grpJob, "store", "WHERE", "where the nodes meet: HOST[:PORT] (that node hosts it) or http(s)://A:2379,B:2379 (an etcd that runs)", &o.Store),
		str(grpJob, "nnodes", "N|MIN:MAX", "number of nodes, or how many are enough and how many are wanted; else from the command line, Slurm or Kubernetes", &o.NNodes),
		&cli.IntFlag{Name: "spares", Category: string(grpJob), Usage: "`K` so many nodes more may come: they wait, and take the place of one that is lost", EnvVars: env("spares"), Destination: &o.Spares},
		str(grpJob, "node-rank", "R", "this node's rank, 0 to N-1; else from the scheduler, or by arrival", &o.NodeRank),
		str(grpJob, "job", "ID", "the job's name; else from --rdzv-id, the scheduler, or made of the meeting point", &o.Job),
		str(grpJob, "addr", "ADDR", "this node's address for its peers: an IP, a CIDR or an interface; else by the route to the store", &o.Addr),
		str(grpJob, "master-port", "PORT", "port of the job's own store on rank 0; else 29500 or the next free one", &o.MasterPort),
		&cli.StringFlag{Name: "port-range", Category: string(grpJob), Usage: "`LO-HI` where to look for a free port", EnvVars: env("port-range"), Value: defaultPortRange, Destination: &o.portRange},
		&cli.StringFlag{Name: "store-host", Category: string(grpJob), Usage: "`yes|no` whether this node hosts the store, where its address does not tell (NAT, a virtual IP)", EnvVars: env("store-host"), Destination: &o.storeHost},
		acc("store-ca", "ETCDCTL_CACERT", "FILE", "certificates (PEM) of the authority that an external etcd is signed by", &o.access.CA),
		acc("store-cert", "ETCDCTL_CERT", "FILE", "this client's certificate for an external etcd", &o.access.Cert),
		acc("store-key", "ETCDCTL_KEY", "FILE", "its key", &o.access.Key),
		acc("store-user", "ETCDCTL_USER", "USER[:PASSWORD]", "for an external etcd; the password better in ETCDCTL_PASSWORD", &o.access.User),
		&cli.StringSliceFlag{Name: "skip", Category: string(grpCheck), Usage: "`ID` leave out a check (comma list); launch check prints the IDs", EnvVars: env("skip")},
		&cli.StringSliceFlag{Name: "only", Category: string(grpCheck), Usage: "`ID` run only these checks (comma list)", EnvVars: env("only")},
		boolFlag(grpCheck, "warn-only", "a failed check is told as a warning, and keeps nobody", &o.warnOnly),
		boolFlag(grpCheck, "all-pairs", "each node calls every other one, not only a few of them", &o.allPairs),
		&cli.GenericFlag{Name: "threshold", Category: string(grpCheck), Usage: "`NAME=VALUE` judge by another number, such as shm.size=1GiB; again for several (LAUNCH_THRESHOLDS: a comma list)", Value: &o.typed},
		&cli.StringFlag{Name: "check-dir", Category: string(grpCheck), Usage: "`DIR` each executable file there is a check, too: exit status 0 is ok, 75 a skip, any other a failure", EnvVars: env("check-dir"), Destination: &o.checkDir},
		&cli.StringFlag{Name: "bench", Category: string(grpCheck), Usage: "`short|full` measure the rails between all nodes before the start, for at most 5 s, or for long; rank 0's counts for all", EnvVars: env("bench"), Destination: &o.measure},
		boolFlag(grpCheck, "local", "only this node, although the job has several", &o.local),
	}, benchFlags(o), []cli.Flag{
		&cli.StringFlag{Name: "textfile", Category: string(grpOutput), Usage: "`FILE` the outcome for node_exporter's textfile collector, too", EnvVars: env("textfile"), Destination: &o.textfile},
		&cli.DurationFlag{Name: "interval", Category: string(grpOutput), Usage: "`TIME` write the file again at this interval, until a signal comes", EnvVars: env("interval"), Destination: &o.interval},
		&cli.StringFlag{Name: "html", Category: string(grpOutput), Usage: "`FILE` the outcome as a page, too", EnvVars: env("html"), Destination: &o.html},
		&cli.DurationFlag{Name: "join-timeout", Category: string(grpStart), Usage: "`TIME` how long to wait for all nodes", EnvVars: env("join-timeout"), Value: defaultJoinTimeout, Destination: &o.joinTimeout},
		&cli.DurationFlag{Name: "last-call", Category: string(grpStart), Usage: "`TIME` with --nnodes MIN:MAX: how long after the last node that came a start with fewer than MAX waits for more", EnvVars: env("last-call"), Value: defaultLastCall, Destination: &o.lastCall},
		&cli.DurationFlag{Name: "start-timeout", Category: string(grpStart), Usage: "`TIME` how long after the start a node that is lost, or has not started, is named", EnvVars: env("start-timeout"), Value: defaultStartTimeout, Destination: &o.startTimeout},
		boolFlag(grpStart, "fail-fast", "end on all nodes when one is unfit, or late or lost after the start, instead of waiting", &o.failFast),
		&cli.IntFlag{Name: "restarts", Category: string(grpStart), Usage: "`K` start all nodes again, up to K times, when the command fails on one or a node is lost", EnvVars: env("restarts"), Destination: &o.restarts},
		boolFlag(grpStart, "keep-rdzv", "keep torchrun's own rendezvous, set right, instead of a static one", &o.KeepRdzv),
		str(grpStart, "as", "torchrun", "the command is a script that calls torchrun inside", &o.As),
		boolFlag(grpStart, "dry-run", "print what would be done; execute nothing, open no connection", &o.dryRun),
		boolFlag(grpOutput, "watch", "again at every change, until Ctrl-C", &o.watch),
		&cli.StringFlag{Name: "svg", Category: string(grpOutput), Usage: "`FILE` draw it as a picture, too", EnvVars: env("svg"), Destination: &o.svg},
		&cli.StringFlag{Name: "record", Category: string(grpOutput), Usage: "`FILE` keep this node as it is, without names and addresses, for --from", EnvVars: env("record"), Destination: &o.record},
		&cli.StringFlag{Name: "from", Category: string(grpOutput), Usage: "`FILE` as if on the node of a recording; nothing is read here, nothing starts", EnvVars: env("from"), Destination: &o.recording},
		&cli.StringFlag{Name: "format", Category: string(grpOutput), Usage: "`FORM` " + strings.Join(envgen.Formats(), ", "), EnvVars: env("format"), Value: envgen.Formats()[0], Destination: &o.format},
		boolFlag(grpOutput, "explain", "say of each variable why it is set, or why not", &o.explain),
		boolFlag(grpOutput, "json", "JSON lines instead of text", &o.json),
	})
}

func boolFlag(g group, name, usage string, to *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Category: string(g), Usage: usage, EnvVars: env(name), Destination: to}
}

// benchFlags are those of launch bench alone.
func benchFlags(o *options) []cli.Flag {
	return []cli.Flag{
		boolFlag(grpBench, "server", "wait for one --client, measure with it, and end", &o.server),
		&cli.StringFlag{Name: "client", Category: string(grpBench), Usage: "`HOST` measure with the --server there, as soon as there is one", EnvVars: env("client"), Destination: &o.client},
		&cli.IntFlag{Name: "bench-port", Category: string(grpBench), Usage: "`PORT` where --server and --client meet", EnvVars: env("bench-port"), Value: defaultBenchPort, Destination: &o.benchPort},
		&cli.StringSliceFlag{Name: "rails", Category: string(grpBench), Usage: "`NAME` measure only these: HCAs or interfaces (comma list); else those that launch fabric calls rails", EnvVars: env("rails")},
		&cli.IntFlag{Name: "streams", Category: string(grpBench), Usage: "`N` connections or queue pairs for each rail; else 4, with --full 8", EnvVars: env("streams"), Destination: &o.streams},
		boolFlag(grpBench, "full", "5 s for each direction, and 7 partners for each node", &o.full),
		boolFlag(grpBench, "tcp", "measure over TCP also where there is an HCA", &o.tcp),
		&cli.StringFlag{Name: "memory", Category: string(grpBench), Usage: "`auto|host|gpu` measure once more from GPU to GPU where one is beside the HCA, or never, or with the nearest one however far", EnvVars: env("memory"), Value: memoryAuto, Destination: &o.memory},
		boolFlag(grpBench, "force", "measure although another job uses the port", &o.force),
		&cli.StringFlag{Name: "history", Category: string(grpBench), Usage: "`FILE` keep how fast this node's rails were, and say what was lost since the last time", EnvVars: env("history"), Destination: &o.history},
	}
}

func env(name string) []string {
	if name == "threshold" {
		name = "thresholds" // one variable for several
	}
	return []string{"LAUNCH_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
}

// value is a flag that remembers whether the line or LAUNCH_* gave it.
type value struct {
	name string
	to   *setting.Value[string]
	o    *options
}

// Set is called by the flag package for the line and for the variable.
func (v *value) Set(s string) error {
	*v.to = setting.Value[string]{V: s, Set: true, From: setting.Source{Tier: setting.Explicit, Name: env(v.name)[0]}}
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

// startFlags are the flags of a start.
func startFlags(o *options) []cli.Flag {
	return slices.DeleteFunc(flagTable(o), func(f cli.Flag) bool {
		return slices.Contains([]string{"watch", "svg", "record", "format", "explain", "local", "textfile", "interval", "html",
			"server", "client", "bench-port", "rails", "streams", "full", "tcp", "memory", "force", "history"}, f.Names()[0])
	})
}

// ownFlags are the names of all flags, and whether each takes a value.
func ownFlags() map[string]bool { return takes(flagTable(&options{})) }

func takes(flags []cli.Flag) map[string]bool {
	out := map[string]bool{}
	for _, f := range flags {
		_, isBool := f.(*cli.BoolFlag)
		out[f.Names()[0]] = !isBool
	}
	return out
}

// from is who said the value of a flag: the line, or else the variable.
func (o *options) from(name string) string {
	if o.given[name] {
		return "--" + name
	}
	return env(name)[0]
}

// ids is a comma list. An empty variable is none.
func (o *options) ids(c *cli.Context, name string) []string {
	ids := c.StringSlice(name)
	if !o.given[name] {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	}
	return ids
}

// check refuses values that cannot be, of the flags that a command has: also
// where this start would not look at them.
func (o *options) check(has map[string]bool) error {
	if err := o.empty(has); err != nil {
		return err
	}
	if o.joinTimeout <= 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is %s: no time to wait at all", o.from("join-timeout"), o.joinTimeout), Fix: "--join-timeout 90s, 10m or 1h30m"}
	}
	if o.startTimeout < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is %s: a time from 0 on (0: do not look)", o.from("start-timeout"), o.startTimeout), Fix: "--start-timeout 2m"}
	}
	if o.lastCall < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is %s: a time from 0 on", o.from("last-call"), o.lastCall), Fix: "--last-call 10s"}
	}
	if o.Spares < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is %d: a number from 0 on", o.from("spares"), o.Spares), Fix: "--spares 1"}
	}
	if m := o.measure; m != "" && m != benchShort && m != benchFull && m != benchNo {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is short, full or no, not %q", o.from("bench"), m), Fix: "--bench short   # launch bench measures alone"}
	}
	if o.restarts < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is %d: a number from 0 on", o.from("restarts"), o.restarts), Fix: "--restarts 3"}
	}
	if _, _, err := o.ports(); err != nil {
		return err
	}
	_, err := o.hosts()
	return err
}

// empty refuses what was typed, but is empty, where that can only be a mistake:
// a template that was not filled in would otherwise start many jobs of one
// node. Other variables that are empty are not set.
func (o *options) empty(has map[string]bool) error {
	for _, f := range []struct {
		name, needs string
		v           setting.Value[string]
	}{
		{"nnodes", "a number", o.NNodes}, {"node-rank", "a number", o.NodeRank}, {"store", "a host", o.Store}, {"job", "a name", o.Job},
	} {
		variable := env(f.name)[0]
		value, set := os.LookupEnv(variable)
		switch {
		case !has[f.name] || f.v.V != "":
		case o.given[f.name]:
			return &exit.Error{Code: exit.Usage, What: "--" + f.name + " is empty (a variable that was not expanded?)", Fix: "leave --" + f.name + " out, or give it " + f.needs}
		case set && value == "":
			return &exit.Error{Code: exit.Usage, What: variable + " is set, but empty (a template that was not filled in?)", Fix: "unset " + variable + ", or give it " + f.needs}
		}
	}
	return nil
}

// etcd is what an external etcd is told of who comes. The variables of etcdctl
// may stand for another etcd than the job's store, so they count only where the
// store is one.
func (o *options) etcd(s job.Store) rendezvous.Access {
	if s.Embedded {
		return rendezvous.Access{}
	}
	a := o.access
	if user, password, ok := strings.Cut(a.User, ":"); ok {
		a.User, a.Password = user, password
	} else if a.User != "" {
		a.Password = cmp.Or(os.Getenv("LAUNCH_STORE_PASSWORD"), os.Getenv("ETCDCTL_PASSWORD"))
	}
	return a
}

// ports reads --port-range.
func (o *options) ports() (lo, hi int, err error) {
	text := o.portRange
	if text == "" && !o.given["port-range"] {
		text = defaultPortRange
	}
	low, high, _ := strings.Cut(text, "-")
	lo, err = strconv.Atoi(low)
	if err == nil {
		hi, err = strconv.Atoi(high)
	}
	if err != nil || lo < 1 || hi > 65535 || lo > hi {
		return 0, 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s %q is no range of ports", o.from("port-range"), text), Fix: "--port-range " + defaultPortRange}
	}
	return lo, hi, nil
}

// hosts reads --store-host; nil: the address tells.
func (o *options) hosts() (*bool, error) {
	yes := o.storeHost == "yes"
	switch {
	case o.storeHost == "" && !o.given["store-host"], o.storeHost == "auto":
		return nil, nil
	case o.storeHost == "yes" || o.storeHost == "no":
		return &yes, nil
	}
	return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s is yes or no, not %q", o.from("store-host"), o.storeHost), Fix: "--store-host yes   # on the node that hosts the store; no on the others"}
}
