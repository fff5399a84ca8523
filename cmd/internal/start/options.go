package start

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"launch/cmd/internal/measure"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/secret"
	"launch/internal/setting"
	"launch/preflight/threshold"
	"launch/rendezvous"
)

// Options are the settings of a run, from flags and LAUNCH_* variables.
type Options struct {
	job.Flags
	measure.Options // of launch bench, and of --bench

	StoreHost    string
	PortRange    string
	Access       rendezvous.Access
	JoinTimeout  time.Duration
	StartTimeout time.Duration
	HangAfter    time.Duration
	LastCall     time.Duration
	Restarts     int
	Token        secret.Token // see token.go

	Skip, Only         []string
	WarnOnly, FailFast bool
	DropUnfit          bool // mpirun: start on the other hosts
	ReadAhead          bool
	OpenStore          bool
	AllPairs           bool
	Typed              []string // --threshold, as typed
	CheckDir           string
	Local              bool   // launch check: this node alone
	Bench              string // --bench
	Textfile, HTML     string
	DryRun, JSON       bool
	Format             string // launch env
	Explain            bool
	Record, Recording  string // --record, --from

	Given map[string]bool // the flags that the command line has, as opposed to LAUNCH_* variables
}

// Defaults.
const (
	// DefaultJoinTimeout lets the last of many nodes boot and pull an image, and
	// is short enough that no night is lost.
	DefaultJoinTimeout = 10 * time.Minute
	// DefaultLastCall is longer than the time between the first and the last of
	// nodes that start together, and short compared with a restart.
	DefaultLastCall = 10 * time.Second
	// DefaultStartTimeout is longer than a node takes to become its command.
	DefaultStartTimeout = 2 * time.Minute
	// DefaultHangAfter is longer than a rank waits for another one at a healthy start, as a rule.
	DefaultHangAfter = 2 * time.Minute
	// DefaultPortRange lies outside Linux's ephemeral range (32768-60999) and
	// begins at torch's own port.
	DefaultPortRange = "29500-29999"
)

// NewOptions returns the settings of a command that has none of the flags.
func NewOptions() *Options {
	return &Options{
		Given:        map[string]bool{},
		JoinTimeout:  DefaultJoinTimeout,
		StartTimeout: DefaultStartTimeout,
		HangAfter:    DefaultHangAfter,
		PortRange:    DefaultPortRange,
		ReadAhead:    true,
		Options:      measure.Options{Port: measure.DefaultPort, Memory: measure.MemoryAuto},
	}
}

// Variable returns the LAUNCH_* variable of a flag.
func Variable(flag string) string {
	if flag == "threshold" {
		flag = "thresholds" // one variable for several flags
	}
	return "LAUNCH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// From returns what set a flag: the flag itself, or else its variable.
func (o *Options) From(flag string) string {
	if o.Given[flag] {
		return "--" + flag
	}
	return Variable(flag)
}

// Check refuses invalid values of the flags in has, even of those that this run does not use.
func (o *Options) Check(has map[string]bool) error {
	if err := o.empty(has); err != nil {
		return err
	}
	refuse := func(flag, value, wants, fix string) error {
		return exit.Errorf(exit.Usage, "%s is %s: %s", o.From(flag), value, wants).Do("%s", fix)
	}
	switch {
	case o.JoinTimeout <= 0:
		return refuse("join-timeout", o.JoinTimeout.String(), "it must be above 0", "--join-timeout 90s, 10m or 1h30m")
	case o.HangAfter < 0:
		return refuse("hang-after", o.HangAfter.String(), "it must not be negative (0: off)", "--hang-after 2m")
	case o.StartTimeout < 0:
		return refuse("start-timeout", o.StartTimeout.String(), "it must not be negative (0: no limit)", "--start-timeout 2m")
	case o.LastCall < 0:
		return refuse("last-call", o.LastCall.String(), "it must not be negative", "--last-call 10s")
	case o.Spares < 0:
		return refuse("spares", strconv.Itoa(o.Spares), "it must not be negative", "--spares 1")
	case o.Restarts < 0:
		return refuse("restarts", strconv.Itoa(o.Restarts), "it must not be negative", "--restarts 3")
	case o.Bench != "" && o.Bench != benchShort && o.Bench != benchFull && o.Bench != benchNo:
		return exit.Errorf(exit.Usage, "%s is short, full or no, not %q", o.From("bench"), o.Bench).
			Do("--bench short   # launch bench measures alone")
	}
	if _, _, err := o.ports(); err != nil {
		return err
	}
	if _, err := o.hosts(); err != nil || !has["threshold"] {
		return err
	}
	return o.readThresholds()
}

// empty refuses empty values that can only be mistakes: a template that was not filled in would start
// many jobs of one node. Other empty variables count as unset.
func (o *Options) empty(has map[string]bool) error {
	for _, f := range []struct {
		name, needs string
		v           setting.Value[string]
	}{
		{"nnodes", "a number", o.NNodes}, {"node-rank", "a number", o.NodeRank},
		{"store", "a host", o.Store}, {"job", "a name", o.Job},
	} {
		variable := Variable(f.name)
		value, set := os.LookupEnv(variable)
		switch {
		case !has[f.name] || f.v.V != "":
		case o.Given[f.name]:
			return exit.Errorf(exit.Usage, "--%s is empty (a variable that was not expanded?)", f.name).
				Do("omit --%s, or give it %s", f.name, f.needs)
		case set && value == "":
			return exit.Errorf(exit.Usage, "%s is set, but empty (a template that was not filled in?)", variable).
				Do("unset %s, or give it %s", variable, f.needs)
		}
	}
	return nil
}

// Etcd returns the credentials for an external etcd. The variables of etcdctl may be for another etcd
// than the job's store.
func (o *Options) Etcd(s job.Store) rendezvous.Access {
	if s.Embedded {
		return rendezvous.Access{}
	}
	a := o.Access
	if user, password, ok := strings.Cut(a.User, ":"); ok {
		a.User, a.Password = user, password
	} else if a.User != "" {
		a.Password = cmp.Or(os.Getenv("LAUNCH_STORE_PASSWORD"), os.Getenv("ETCDCTL_PASSWORD"))
	}
	return a
}

// ports parses --port-range.
func (o *Options) ports() (lo, hi int, err error) {
	text := o.PortRange
	if text == "" && !o.Given["port-range"] {
		text = DefaultPortRange
	}
	low, high, _ := strings.Cut(text, "-")
	lo, err = strconv.Atoi(low)
	if err == nil {
		hi, err = strconv.Atoi(high)
	}
	if err != nil || lo < 1 || hi > 65535 || lo > hi {
		return 0, 0, exit.Errorf(exit.Usage, "%s %q is not a port range", o.From("port-range"), text).
			Do("--port-range %s", DefaultPortRange)
	}
	return lo, hi, nil
}

// hosts parses --store-host; nil means that the address decides.
func (o *Options) hosts() (*bool, error) {
	yes := o.StoreHost == "yes"
	switch {
	case o.StoreHost == "" && !o.Given["store-host"], o.StoreHost == "auto":
		return nil, nil
	case o.StoreHost == "yes" || o.StoreHost == "no":
		return &yes, nil
	}
	return nil, exit.Errorf(exit.Usage, "%s is yes or no, not %q", o.From("store-host"), o.StoreHost).
		Do("--store-host yes   # on the node that hosts the store; no on the others")
}

// readThresholds parses LAUNCH_THRESHOLDS and the typed ones, which win.
func (o *Options) readThresholds() error {
	o.Thresholds = map[string]float64{}
	read := func(from, sep, text string) error {
		name, value, err := threshold.Parse(text)
		if e, ok := errors.AsType[*threshold.Error](err); ok {
			return exit.Errorf(exit.Usage, "%s: %s", from, e.What).Do("%s%s%s", from, sep, e.Fix)
		}
		o.Thresholds[name] = value
		return err
	}
	variable := Variable("threshold")
	for _, text := range strings.Split(os.Getenv(variable), ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := read(variable, "=", text); err != nil {
			return err
		}
	}
	for _, text := range o.Typed {
		if err := read("--threshold", " ", text); err != nil {
			return err
		}
	}
	return nil
}
