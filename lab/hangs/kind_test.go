package hangs

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/programs"
)

// The ways in which a job is started.
const (
	plain  = "torchrun"        // static rendezvous
	c10d   = "torchrun c10d"   // an endpoint on host0
	env    = "environment"     // each rank without torchrun, with RANK and WORLD_SIZE
	launch = "launch torchrun" // with the store on host0
)

// A job's addresses, by the defaults of torchrun.
const (
	master   = "10.77.0.1"
	port     = "29500"
	endpoint = "29400"
)

// Time limits.
const (
	upLimit     = 90 * time.Second // until a job is in its phase: six processes import torch
	upEach      = 8 * time.Second  // and so long for each rank, if there are many
	settle      = 5 * time.Second  // how long nothing may be printed; a SYN is sent again three times
	askLimit    = 30 * time.Second // for one answer of the doctor
	doctorLimit = 20 * time.Second // what the doctor itself may take
	endLimit    = 60 * time.Second // until a slow job has gone on to its end
	pollEvery   = 100 * time.Millisecond
)

// kind is one kind of start.
type kind struct {
	name  string
	short bool // among those that always run
	old   bool // with Debian's torch, 1.13
	gloo  bool // about Gloo: with NCCL it is another case, or none

	hosts, per int    // 2 hosts of 2 ranks each, if zero
	spare      int    // hosts more, without ranks
	how        string // plain, if empty
	args       string // of testdata/job.py
	env        []string
	envOf      func(host int) []string // and of one host's ranks

	before func(*bed) // before the job starts
	start  func(*bed) // instead of the usual start
	strike func(*bed) // when the ranks have reached the phase of at

	// at is the phase of each rank, "0,1,2:init 3:odd": the last line that it has printed begins so.
	// "-" are ranks that have printed nothing.
	at string
	// then is that phase after strike, if it differs.
	then string
	// over are the hosts whose command has ended by then; some: any but one.
	over []int

	// Where the job and the doctor run, and with which rights: put before their command lines.
	jobIn    []string
	doctorIn func(b *bed, host int) []string

	want want
}

// want is the right answer. An alternative is separated by "|".
type want struct {
	state  string // "hung|open"
	cause  string // of the first verdict; empty: no verdict
	ranks  string // "3|2,3", as the first verdict names them; empty: any
	nodes  string // "host1|host0,host1"; empty: any
	from   []int  // the hosts that ask; nil: all
	stack  bool   // only a stack decides: without py-spy, collective.idle or an open answer is right too
	lost   string // is among what the answer says it could not read
	others bool   // the job is one of several, and the others run
	alone  *alone // what one healthy node must say without the others
}

// alone is the right answer of one host.
type alone struct {
	host int
	want want
}

// some is for kind.over.
var some = []int{-1}

func (k kind) withDefaults() kind {
	if k.hosts == 0 {
		k.hosts = 2
	}
	if k.per == 0 {
		k.per = 2
	}
	if k.how == "" {
		k.how = plain
	}
	if k.then == "" {
		k.then = k.at
	}
	return k
}

func (k kind) world() int { return k.hosts * k.per }

// run makes the start, checks that it is what it says, asks the doctor and compares.
func (k kind) run(t *testing.T) {
	k = k.withDefaults()
	if backend() == "nccl" && (k.old || k.gloo) {
		t.Skip("not a case of NCCL")
	}
	torch := programs.Torch{}
	if k.old {
		torch = programs.DebianTorch(t)
	} else {
		torch = programs.CurrentTorch(t)
	}
	b := newBed(t, k, netns.New(t, k.hosts+k.spare), torch)
	if k.before != nil {
		k.before(b)
	}
	if k.start == nil {
		k.start = (*bed).startJob
	}
	k.start(b)
	b.reaches(k.at)
	if k.strike != nil {
		k.strike(b)
		b.reaches(k.then)
	}
	moves := !strings.Contains(k.want.state, "hung")
	b.remains(k.then, moves)
	t.Logf("%s: %s after %.1f s; %s", k.name, k.then, time.Since(b.began).Seconds(), b.said())
	if tools.doctor {
		b.judge(b.ask())
	}
	if moves {
		b.goesOn()
	}
	if !tools.doctor {
		t.Skip("this launch has no doctor")
	}
}

// backend is what moves the tensors: gloo, or nccl on one GPU that all ranks share.
func backend() string { return cmp.Or(os.Getenv("LAUNCH_HANGS_BACKEND"), "gloo") }

func hostName(i int) string { return "host" + strconv.Itoa(i) }
