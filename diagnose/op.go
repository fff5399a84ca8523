package diagnose

import (
	"cmp"
	"slices"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// op is the operation of torch.distributed that a rank waits in, as the stack of one of its threads shows it.
type op struct {
	name  string // "all_reduce", "recv"; of what waits in C++: "DTensor.full_tensor", "Work.wait"
	kind  opKind
	sure  verdict.Sure // that it waits for other ranks
	stack *scene.Stack // of the thread that waits; nil: it waits in no operation
	// by is what the script has called, where that is another function of torch.
	by string
}

type opKind int

const (
	noOp    opKind = iota
	ofAll          // a collective
	ofPair         // send or recv
	ofMaker        // a maker of groups: all ranks call it
	ofCall         // a remote procedure call
)

// String names the operation for a sentence.
func (o op) String() string {
	if o.by != "" && o.by != o.name {
		return o.name + " (" + o.by + ")"
	}
	return o.name
}

// makers are the functions of torch.distributed that make groups: all ranks call them.
var makers = []string{"init_device_mesh", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group"}

// broadcasts are functions of DistributedDataParallel that send buffers or parameters, by C++.
var broadcasts = []string{"_distributed_broadcast_coalesced", "_sync_params_and_buffers"}

// inC are functions that wait in C++ for what their name does not say, each with the collective that it is.
var inC = map[string]string{
	"_sync_params": "broadcast", "_verify_param_shape_across_processes": "all_gather", "_pre_forward": "broadcast",
	"_wait_batch_p2p": "recv", "_engine_run_backward": "all_reduce"}

// callers are the files of torch whose functions call collectives for a script.
var callers = []string{"torch/distributed/", "torch/nn/parallel/", "torch/autograd/", "torch/_tensor.py"}

// own are files of torch whose functions wait for no other rank, or do so by the store.
var own = []string{"torch/distributed/elastic/", "torch/distributed/launcher/", "torch/distributed/run.py",
	"torch/distributed/rendezvous.py", "torch/distributed/checkpoint/filesystem.py"}

// local are the files of Python's own library in which a thread waits for one of its own process, or for a child.
var local = []string{"threading.py", "queue.py", "multiprocessing/", "concurrent/", "asyncio/", "selectors.py",
	"subprocess.py", "socket.py", "ssl.py", "contextlib.py", "<frozen"}

// opOf returns the operation that a process waits in: of its main thread, or where that waits for a thread of its own,
// of the one thread that is in one.
func (v *view) opOf(s *seat) op {
	p, main := s.proc, mainStack(s.proc)
	if main == nil || p.GIL != nil { // what it waited for may be over
		return op{}
	}
	o, waits := namedOp(main), waitsOnFutex(p) && !works(p.Moved, s.node.scene.Span)
	switch {
	case o.kind != noOp:
		return o
	case hasRPC(p) && !v.inInit(s):
		return futureOf(main, p)
	case waits:
		if o = stackOp(main, p); o.kind != noOp {
			return o
		}
	}
	if !waits || len(main.Frames) == 0 || !startsWith(where(main.Frames[0]), local) {
		return op{}
	}
	var out op
	for i := range p.Stacks {
		o := namedOp(&p.Stacks[i])
		if o.kind != ofAll {
			continue
		}
		if out.kind != noOp {
			return op{}
		}
		out = o
		out.sure, out.by = verdict.Likely, "thread "+p.Stacks[i].Thread
	}
	return out
}

// stackOp returns the operation that the main thread waits in by C++, which has no frames. Gloo's send and recv wait in
// that thread, with a time limit; its collectives run in another one.
func stackOp(s *scene.Stack, p *scene.Proc) op {
	o := op{kind: ofAll, sure: verdict.Certain, stack: s}
	inner := where(s.Frames[0])
	for _, f := range s.Frames {
		at, name := where(f), last(f)
		switch {
		case !strings.HasPrefix(at, "torch/"):
			if o.by == "" {
				return direct(s, p, inner)
			}
			return o.known()
		case startsWith(at, own), name == "<module>", name == "init_rpc", slices.Contains(ends, name):
			return op{} // it reads or writes, is imported, begins or ends
		case inC[name] == "recv":
			o.name, o.kind = "recv", ofPair
		case inC[name] != "" && o.name == "" && (pending(p) || !strings.HasPrefix(at, "torch/autograd/")):
			o.name = inC[name]
		}
		if startsWith(at, callers) && (o.name != "" || !strings.HasPrefix(at, "torch/autograd/")) {
			o.by, _, _ = strings.Cut(f, " (")
		}
	}
	return o.known()
}

// direct returns the operation of a wait in C++ that the script itself calls, as wait() of what all_reduce or irecv
// has returned.
func direct(s *scene.Stack, p *scene.Proc, inner string) op {
	o := op{name: "Work.wait", sure: verdict.Likely, stack: s} // a lock of the script looks alike
	switch {
	case startsWith(inner, local):
	case pending(p):
		o.kind, o.by = ofAll, "a collective that it has started"
	case p.Syscall != nil && p.Syscall.Timed && thread(p, "pt_gloo_runloop"):
		o.kind, o.by = ofPair, "a send or recv that it has started"
	}
	return o
}

// futureOf returns the wait for the result of a remote procedure call.
func futureOf(s *scene.Stack, p *scene.Proc) op {
	o := op{name: "Future.wait", sure: verdict.Likely, stack: s}
	if waitsOnFutex(p) && len(s.Frames) > 0 && !startsWith(where(s.Frames[0]), local) {
		o.kind = ofCall
	}
	return o
}

// hasRPC reports whether torch.distributed.rpc runs in a process: it has threads of TensorPipe.
func hasRPC(p *scene.Proc) bool { return thread(p, "TP_") }

// known names the operation of a wait in C++ by what the script called; it is empty if that is not a function
// of torch.distributed.
func (o op) known() op {
	if o.by == "" {
		return op{}
	}
	if i := strings.Index(o.by, ".<locals>"); i >= 0 {
		o.by = o.by[:i]
	}
	switch v := o.stack.Values; v["current"] + " " + v["target"] {
	case "Shard Replicate":
		o.name = "all_gather"
	case "Partial Replicate":
		o.name = "all_reduce"
	case "Partial Shard":
		o.name = "reduce_scatter"
	case "Shard Shard":
		o.name = "all_to_all"
	}
	o.name = cmp.Or(o.name, o.by)
	return o
}

// namedOp returns the operation that a public function in a stack names; of several, the innermost, but of those that
// make groups and of remote procedure calls the one that the script called.
func namedOp(s *scene.Stack) op {
	o := op{sure: verdict.Certain, stack: s}
	for _, f := range s.Frames {
		at, name := where(f), last(f)
		full, _, _ := strings.Cut(f, " (")
		switch public := !strings.HasPrefix(full, "_") && !strings.HasPrefix(full, "<"); {
		case strings.HasPrefix(at, "torch/") && slices.Contains(broadcasts, name):
			return op{name: "broadcast", kind: ofAll, sure: verdict.Certain, stack: s}
		case strings.Contains(at, "torch/distributed/") && slices.Contains(makers, name):
			o.name, o.kind = name, ofMaker
		case strings.Contains(at, "distributed_c10d.py") && slices.Contains(ends, name):
			return op{}
		case strings.Contains(at, "torch/distributed/rpc/") && public && name != "wrapper":
			o.name, o.kind = name, ofCall
		case o.kind != noOp || !public || !strings.Contains(at, "distributed_c10d.py"):
		case name == "send" || name == "recv":
			o.name, o.kind = name, ofPair
		default:
			o.name, o.kind = name, ofAll
		}
	}
	if o.kind == noOp || o.name == "init_rpc" {
		return op{}
	}
	return o
}

// ends are functions that begin and end the work of torch.distributed.
var ends = []string{"init_process_group", "destroy_process_group"}

// pending reports whether a thread of Gloo executes a collective: one without work waits without a time limit.
func pending(p *scene.Proc) bool { return executing(p) > 0 }

// executing counts the threads of Gloo that execute a collective.
func executing(p *scene.Proc) (n int) {
	for _, t := range p.Threads {
		if t.Name == "pt_gloo_runloop" && t.Timed {
			n += t.Count
		}
	}
	return n
}

// where returns the file and line of a frame; last the function, without its class.
func where(frame string) string {
	_, at, _ := strings.Cut(frame, " (")
	return at
}

func last(frame string) string {
	name, _, _ := strings.Cut(frame, " (")
	return name[strings.LastIndexByte(name, '.')+1:]
}

func startsWith(text string, all []string) bool {
	return slices.ContainsFunc(all, func(b string) bool { return strings.HasPrefix(text, b) })
}

// peer names the rank, or the worker of a remote procedure call, that an operation between two names; "": not known.
func (o op) peer() string {
	v := o.stack.Values
	switch {
	case o.kind == ofCall && v["to"] != "":
		return "to " + v["to"]
	case o.kind != ofPair:
		return ""
	case v["works"] != "":
		return "from rank " + v["works"]
	case o.name == "recv" && v["src"] != "":
		return "from rank " + v["src"]
	case o.name == "send" && v["dst"] != "":
		return "to rank " + v["dst"]
	}
	return ""
}

// whole names the operation with the other end, if it is of one rank alone, and with what of torch the script called.
func (o op) whole(alone bool) string {
	if p := o.peer(); alone && p != "" {
		if tag := o.stack.Values["tag"]; tag != "" && tag != "0" {
			p += ", tag " + tag
		}
		return strings.Replace(o.String(), o.name, o.name+" "+p, 1)
	}
	return o.String()
}

// root returns the rank that a collective names as the one that sends to all, or receives from all; "": not known.
func (o op) root() string {
	for _, name := range []string{"src", "dst", "group_src", "group_dst"} {
		if r := o.stack.Values[name]; r != "" {
			return name + "=" + r
		}
	}
	return ""
}

// keyOf returns the name of an argument.
func keyOf(argument string) string {
	name, _, _ := strings.Cut(argument, "=")
	return name
}

// groupOf returns the number of the group that a rank waits in, by the connection on which it has sent last; -1:
// it is not known, as where two are as late.
func (v *view) groupOf(s *seat) int {
	best, at, tie := -1, int64(0), false
	for _, k := range s.node.scene.Sockets {
		if k.PID != s.proc.PID || k.State != "established" || k.Info == nil || k.Info.Sent <= handshake {
			continue
		}
		g := v.groupAt(k)
		if g < 0 {
			continue
		}
		sent := int64(k.Info.LastSent)
		switch {
		case best < 0 || sent < at:
			best, at, tie = g, sent, false
		case sent == at && g != best:
			tie = true
		}
	}
	if tie {
		return -1
	}
	return best
}

// handshake is how many bytes Gloo sends on each connection when a group is made.
const handshake = 16

// groupAt returns the group to whose published addresses a connection belongs; -1: to no group.
func (v *view) groupAt(k scene.Socket) int {
	if v.board == nil {
		return -1
	}
	for _, b := range v.board.Blobs {
		at := b.Addr.Addr().Unmap()
		if hasPort(b, k.Remote.Port()) && k.Remote.Addr().Unmap() == at ||
			hasPort(b, k.Local.Port()) && k.Local.Addr().Unmap() == at {
			return b.Group
		}
	}
	return -1
}
