package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/measure"
	"launch/cmd/internal/start"
	"launch/envgen"
	"launch/internal/setting"
)

// The headings of the help, in its order.
const (
	grpJob    = "who and how many"
	grpEtcd   = "an external etcd (the ETCDCTL_* variables count too)"
	grpCheck  = "checks"
	grpBench  = "measuring"
	grpDoctor = "a job that hangs"
	grpStart  = "start"
	grpOutput = "output"
)

func groups() []string {
	return []string{grpJob, grpEtcd, grpCheck, grpBench, grpDoctor, grpStart, grpOutput}
}

// flags are all flags, each declared once. Each has a variable LAUNCH_NAME.
type flags struct {
	store, nnodes, spares, nodeRank, job, addr, masterPort, portRange, storeHost              cli.Flag
	skip, only, warnOnly, dropUnfit, allPairs, threshold, checkDir, bench, local              cli.Flag
	joinTimeout, lastCall, startTimeout, failFast, restarts, keepRdzv, as, dryRun             cli.Flag
	readAhead, openStore, role, after                                                         cli.Flag
	textfile, interval, listen, html, watch, prefix, svg, record, from, format, explain, json cli.Flag
	server, client, benchPort, rails, streams, full, tcp, memory, force, history              cli.Flag
	storeCA, storeCert, storeKey, storeUser                                                   cli.Flag
	hangAfter, onHang, pid, merge, log, hosts, bundle                                         cli.Flag
}

// maker declares flags that write to the settings of a run.
type maker struct{ o *start.Options }

func (m maker) str(group, name, arg, usage string, to *setting.Value[string]) cli.Flag {
	return &cli.GenericFlag{Name: name, Category: group, Usage: "`" + arg + "` " + usage, EnvVars: env(name),
		Value: &value{name, to, m.o}}
}

func (maker) text(group, name, arg, usage, preset string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Category: group, Usage: "`" + arg + "` " + usage, EnvVars: env(name),
		Value: preset, Destination: to}
}

func (maker) etcd(name, etcdctl, arg, usage string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Category: grpEtcd, Usage: "`" + arg + "` " + usage,
		EnvVars:     append(env(name), etcdctl),
		Destination: to}
}

func (maker) number(group, name, arg, usage string, preset int, to *int) cli.Flag {
	return &cli.IntFlag{Name: name, Category: group, Usage: "`" + arg + "` " + usage, EnvVars: env(name),
		Value: preset, Destination: to}
}

func (maker) duration(group, name, usage string, preset time.Duration, to *time.Duration) cli.Flag {
	return &cli.DurationFlag{Name: name, Category: group, Usage: "`TIME` " + usage, EnvVars: env(name),
		Value: preset, Destination: to}
}

func (maker) yes(group, name, usage string, to *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Category: group, Usage: usage, EnvVars: env(name), Destination: to}
}

func (m maker) list(group, name, arg, usage string, to *[]string) cli.Flag {
	f := &cli.GenericFlag{Name: name, Category: group, Usage: "`" + arg + "` " + usage, EnvVars: env(name),
		Value: &commas{name, to, m.o}}
	if m.o.Given[name] { // the variable's list is replaced, not extended
		f.EnvVars = nil
	}
	return f
}

// newFlags returns the flags, which write to the settings of a.
func newFlags(a *app) *flags {
	f, m := &flags{}, maker{a.Opt}
	f.declareJob(m)
	f.declareEtcd(m)
	f.declareCheck(m)
	f.declareBench(m)
	f.declareStart(m)
	f.declareOutput(m, a)
	f.declareDoctor(m, a)
	return f
}

func (f *flags) declareJob(m maker) {
	o := m.o
	f.store = m.str(grpJob, "store", "WHERE",
		"where the nodes find each other: HOST[:PORT] (launch hosts a store there, on one node where several share it) "+
			"or http(s)://A:2379,B:2379 (an etcd that runs)", &o.Store)
	f.nnodes = m.str(grpJob, "nnodes", "N|MIN:MAX", "number of nodes, or MIN:MAX: start with MIN, take up to MAX; "+
		"default: from the command line, Slurm or Kubernetes", &o.NNodes)
	f.spares = m.number(grpJob, "spares", "K",
		"allow up to K standby nodes; one replaces a node lost before the start or, with --restarts, between two attempts", 0,
		&o.Spares)
	f.nodeRank = m.str(grpJob, "node-rank", "R", "this node's rank, 0 to N-1; default: from the scheduler, or by arrival",
		&o.NodeRank)
	f.role = m.str(grpJob, "role", "NAME", "this node's part in a job whose nodes run different commands; --nnodes "+
		"counts the nodes of all roles, and each role is a world of its own; auto: the scheduler's name for this pod's group",
		&o.Role)
	f.after = m.list(grpJob, "after", "ROLE:PORT",
		"start the command once every node of ROLE listens on PORT (comma list)", &o.After)
	f.job = m.str(grpJob, "job", "ID", "the job's name; default: from --rdzv-id, the scheduler, or the store's address",
		&o.Job)
	f.addr = m.str(grpJob, "addr", "ADDR",
		"this node's address for the other nodes: an IP, a CIDR or an interface; default: by the route to the store", &o.Addr)
	f.masterPort = m.str(grpJob, "master-port", "PORT",
		"port of torch's store on node rank 0; default: 29500 or the next free one", &o.MasterPort)
	f.portRange = m.text(grpJob, "port-range", "LO-HI", "range for the port of torch's store, if the wanted one is taken",
		start.DefaultPortRange,
		&o.PortRange)
	f.storeHost = m.text(grpJob, "store-host", "yes|no", "say whether this node hosts the store, "+
		"if its address does not show it (NAT, a virtual IP)", "", &o.StoreHost)
}

func (f *flags) declareEtcd(m maker) {
	o := m.o
	f.storeCA = m.etcd("store-ca", "ETCDCTL_CACERT", "FILE",
		"CA certificates (PEM) of an external etcd", &o.Access.CA)
	f.storeCert = m.etcd("store-cert", "ETCDCTL_CERT", "FILE", "client certificate for an external etcd",
		&o.Access.Cert)
	f.storeKey = m.etcd("store-key", "ETCDCTL_KEY", "FILE", "key of --store-cert", &o.Access.Key)
	f.storeUser = m.etcd("store-user", "ETCDCTL_USER", "USER[:PASSWORD]",
		"user of an external etcd; the password is safer in ETCDCTL_PASSWORD", &o.Access.User)
}

func (f *flags) declareCheck(m maker) {
	o := m.o
	f.skip = m.list(grpCheck, "skip", "ID", "leave out a check (comma list); launch check prints the IDs", &o.Skip)
	f.only = m.list(grpCheck, "only", "ID", "run only these checks (comma list)", &o.Only)
	f.warnOnly = m.yes(grpCheck, "warn-only", "report failed checks as warnings and start anyway", &o.WarnOnly)
	f.dropUnfit = m.yes(grpCheck, "drop-unfit", "mpirun: leave unfit hosts out, if the others have enough slots",
		&o.DropUnfit)
	f.allPairs = m.yes(grpCheck, "all-pairs", "each node calls every other node, not only a few", &o.AllPairs)
	f.threshold = &cli.GenericFlag{Name: "threshold", Category: grpCheck, Value: (*typed)(&o.Typed),
		Usage: "`NAME=VALUE` replace a check's threshold, such as shm.size=1GiB; repeat for several (LAUNCH_THRESHOLDS: a " +
			"comma list)"}
	f.checkDir = m.text(grpCheck, "check-dir", "DIR", "run each executable file there as a check: exit status 0 is ok, "+
		"75 a skip, any other a failure", "", &o.CheckDir)
	f.bench = m.text(grpCheck, "bench", "short|full|no", "measure the network between all nodes first (default no): "+
		"short, at most 5 s; full, 5 s for each direction and partner; node rank 0's counts for all", "", &o.Bench)
	f.local = m.yes(grpCheck, "local", "check this node alone, although the job has several", &o.Local)
}

func (f *flags) declareBench(m maker) {
	o := m.o
	f.server = m.yes(grpBench, "server", "wait for one --client, measure with it, and end", &o.Server)
	f.client = m.text(grpBench, "client", "HOST", "measure with the --server there, as soon as it runs", "", &o.Client)
	f.benchPort = m.number(grpBench, "bench-port", "PORT", "port of --server and --client", measure.DefaultPort, &o.Port)
	f.rails = m.list(grpBench, "rails", "NAME",
		"measure only these HCAs or interfaces (comma list); default: the rails of launch fabric", &o.Rails)
	f.streams = m.number(grpBench, "streams", "N", "connections or queue pairs for each rail; default: 4, with --full 8",
		0, &o.Streams)
	f.full = m.yes(grpBench, "full", "measure 5 s for each direction, and 7 partners for each node", &o.Full)
	f.tcp = m.yes(grpBench, "tcp", "measure over TCP even where there is an HCA", &o.TCP)
	f.memory = m.text(grpBench, "memory", "auto|host|gpu",
		"also measure from GPU to GPU: auto, if a GPU is close to the HCA; "+
			"gpu, with the nearest GPU at any distance; host, never", measure.MemoryAuto, &o.Memory)
	f.force = m.yes(grpBench, "force", "measure although another job uses the port", &o.Force)
	f.history = m.text(grpBench, "history", "FILE",
		"append the rates of this node's rails to FILE, and report what was lost since the last run",
		"", &o.History)
}

func (f *flags) declareStart(m maker) {
	o := m.o
	f.joinTimeout = m.duration(grpStart, "join-timeout", "how long to wait for all nodes", start.DefaultJoinTimeout,
		&o.JoinTimeout)
	f.lastCall = m.duration(grpStart, "last-call",
		"with --nnodes MIN:MAX: once MIN nodes have joined, wait this long after each arrival for more",
		start.DefaultLastCall, &o.LastCall)
	f.startTimeout = m.duration(grpStart, "start-timeout",
		"once all nodes may start, warn about each that has not within this time; 0: off",
		start.DefaultStartTimeout, &o.StartTimeout)
	f.hangAfter = m.duration(grpStart, "hang-after",
		"when no process of the command moves on node rank 0 for this long, say why, as launch doctor does; 0: off",
		start.DefaultHangAfter, &o.HangAfter)
	f.onHang = m.text(grpStart, "on-hang", "say|end", "say why the job hangs; end: also end it on all nodes with "+
		"status 76, if it certainly hangs, after --bundle was written", start.NewOptions().OnHang, &o.OnHang)
	f.failFast = m.yes(grpStart, "fail-fast",
		"do not wait: end all nodes if one is unfit (the default in a Slurm step), lost, fails, or has not started "+
			"within --start-timeout", &o.FailFast)
	f.restarts = m.number(grpStart, "restarts", "K",
		"restart all nodes, up to K times, when the command fails on one or a node is lost", 0, &o.Restarts)
	f.keepRdzv = m.yes(grpStart, "keep-rdzv",
		"keep torchrun's own rendezvous, with correct settings, instead of a static one", &o.KeepRdzv)
	f.as = m.str(grpStart, "as", "torchrun|program", "torchrun: a script passes its arguments on to torchrun; "+
		"program: start the command as typed", &o.As)
	f.readAhead = &cli.BoolFlag{Name: "read-ahead", Category: grpStart, EnvVars: env("read-ahead"), Value: true,
		Usage:       "read the files of torch into memory before its import needs them; =false: off",
		Destination: &o.ReadAhead}
	f.openStore = m.yes(grpStart, "open-store",
		"without LAUNCH_TOKEN: do not say that the store is open to all that reach it", &o.OpenStore)
	f.dryRun = m.yes(grpStart, "dry-run", "print what a start would do; execute nothing, open no connection", &o.DryRun)
}

func (f *flags) declareOutput(m maker, a *app) {
	o := m.o
	f.textfile = m.text(grpOutput, "textfile", "FILE", "also write the outcome for node_exporter's textfile collector", "",
		&o.Textfile)
	f.interval = m.duration(grpOutput, "interval", "write the file again at this interval, until a signal", 0, &a.interval)
	f.listen = m.text(grpOutput, "listen", "ADDR:PORT", "serve the metrics to Prometheus there, until a signal", "",
		&a.listen)
	f.html = m.text(grpOutput, "html", "FILE", "also write the outcome as an HTML page", "", &o.HTML)
	f.prefix = m.text(grpEtcd, "prefix", "PREFIX", "clean: remove the keys that other programs have left below it", "",
		&a.prefix)
	f.watch = m.yes(grpOutput, "watch", "print again at every change, until Ctrl-C", &a.watch)
	f.svg = m.text(grpOutput, "svg", "FILE", "also draw it as a picture", "", &a.svg)
	f.record = m.text(grpOutput, "record", "FILE", "record this node, without its names and addresses, for --from", "",
		&o.Record)
	f.from = m.text(grpOutput, "from", "FILE", "replay a recorded node: nothing is read here, nothing starts", "",
		&o.Recording)
	f.format = m.text(grpOutput, "format", "FORM", strings.Join(envgen.Formats(), ", "), envgen.Formats()[0], &o.Format)
	f.explain = m.yes(grpOutput, "explain", "print why each variable is set, or why not", &o.Explain)
	f.json = m.yes(grpOutput, "json", "JSON lines instead of text", &o.JSON)
}

func (f *flags) declareDoctor(m maker, a *app) {
	f.pid = m.number(grpDoctor, "pid", "PID", "look at the job of this process only", 0, &a.doc.pid)
	f.merge = m.yes(grpDoctor, "merge", "judge together what several nodes have written with --json", &a.doc.merge)
	f.hosts = m.text(grpDoctor, "hosts", "LIST|@FILE",
		"look on these hosts too, by ssh: a list as of Slurm, or a file with one host on a line", "", &a.doc.hosts)
	f.bundle = m.text(grpDoctor, "bundle", "FILE",
		"also write all that was seen as one file to send, without secrets and with other names and addresses", "",
		&a.doc.bundle)
	f.log = m.yes(grpDoctor, "log", "read logs, also gz, folders of them, or - for standard input", &a.doc.log)
}

func env(name string) []string { return []string{start.Variable(name)} }

// value is a flag that remembers whether the command line or its variable set it.
type value struct {
	name string
	to   *setting.Value[string]
	o    *start.Options
}

// Set is called by the flag package for the command line and for the variable.
func (v *value) Set(s string) error {
	*v.to = setting.Value[string]{V: s, Set: true, From: setting.Source{Tier: setting.Explicit, Name: v.o.From(v.name)}}
	return nil
}

func (v *value) String() string {
	if v.to == nil {
		return ""
	}
	return v.to.V
}

// commas is a comma list, which may be repeated. Empty entries of a variable count as absent.
type commas struct {
	name string
	to   *[]string
	o    *start.Options
}

// Set appends the entries of a list.
func (c *commas) Set(s string) error {
	for _, one := range strings.Split(s, ",") {
		if one = strings.TrimSpace(one); one != "" || c.o.Given[c.name] {
			*c.to = append(*c.to, one)
		}
	}
	return nil
}

func (c *commas) String() string { return "" }

// typed is a flag that may be repeated; its values stay as typed.
type typed []string

// Set appends a value.
func (t *typed) Set(s string) error { *t = append(*t, s); return nil }

func (t *typed) String() string { return "" }

// preset returns the default value of a flag, or "".
func preset(f cli.Flag) string {
	text := f.(cli.DocGenerationFlag).GetDefaultText()
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	if text == "false" || text == "0" || text == "0s" {
		return ""
	}
	return text
}
