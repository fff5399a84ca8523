// Package scene holds what one node sees of a job that does not go on: its processes, their sockets and what the
// job's stores hold. Facts alone: package diagnose judges.
package scene

import (
	"net/netip"
	"time"

	"launch/internal/tcpstore"
)

// Schema is the version of a Scene in JSON.
const Schema = 1

// Scene is what one node saw between Taken and Taken+Span.
type Scene struct {
	Schema int           `json:"schema"`
	Host   string        `json:"host"` // host name
	Boot   string        `json:"boot"` // boot id: scenes of one boot share a kernel
	User   int           `json:"user"` // uid of the reader
	Taken  time.Time     `json:"taken"`
	Span   time.Duration `json:"span"` // between the two samples, nanoseconds
	// Group is what the job's control group had of the processors during the look; zero: not known.
	Group Group `json:"group,omitzero"`
	// Addrs are the addresses of the node's interfaces in the reader's network namespace, without loopback.
	Addrs []netip.Addr `json:"addrs,omitempty"`
	// Hardware are the hardware addresses of the same interfaces.
	Hardware []string `json:"hardware,omitempty"`
	// Net is the reader's network namespace (its inode).
	Net uint64 `json:"net,omitempty"`
	// At is the address at which another node was asked for its scene just now; zero: it was not.
	At netip.Addr `json:"at,omitzero"`
	// Via is the node that has passed this scene on; nil: its own node has answered.
	Via *Relay `json:"via,omitempty"`
	// Node is the node rank that launch gave this node, where its companion looks; nil: unknown.
	Node    *int     `json:"node,omitempty"`
	Procs   []Proc   `json:"procs,omitempty"`
	Sockets []Socket `json:"sockets,omitempty"` // of the job's processes, and those on ports that the job uses
	Stores  []Store  `json:"stores,omitempty"`  // each address that the job's processes name, asked once
	Paths   []Path   `json:"paths,omitempty"`   // to other nodes to which a connection is stuck, as a companion finds
	Ways    []Way    `json:"ways,omitempty"`    // to other nodes, where this node's own kernel shows something of them
	Crawls  []Crawl  `json:"crawls,omitempty"`  // connections that carry little by far, one for each other node
	Past    []Past   `json:"past,omitempty"`    // of ranks, from a companion
	RAS     []RAS    `json:"ras,omitempty"`     // NCCL's RAS services of this node's ranks, each asked twice
	// Ended are other nodes of the job whose launch has left.
	Ended []Ended `json:"ended,omitempty"`
	// Unheard are other nodes of the job that take a connection, and whose answer does not arrive.
	Unheard []Ended `json:"unheard,omitempty"`
	// Peers are the other nodes of the job, as far as this one knows them; they may have no scene.
	Peers []Peer `json:"peers,omitempty"`
	// Gaps are what could not be read, and why.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Relay is a node that has passed on what another one sees: it exchanges messages with that one, and with the one that
// asked.
type Relay struct {
	Name string     `json:"name"`
	At   netip.Addr `json:"at"`   // where it reached the node of the scene
	From netip.Addr `json:"from"` // where the node that asked calls from
}

// Peer is another node of the job.
type Peer struct {
	Name  string       `json:"name"` // its host name
	Rank  int          `json:"rank"` // node rank
	Addrs []netip.Addr `json:"addrs,omitempty"`
}

// Group is what a control group had of the processors in a time; durations are in nanoseconds.
type Group struct {
	Time time.Duration `json:"time"`
	Used time.Duration `json:"used"` // processor time
	Held time.Duration `json:"held"` // how long a quota held its threads, summed over the processors
	// Periods are those of the quota in which its threads ran, and Throttled how many of these held them; 0: not known.
	Periods   int64 `json:"periods,omitempty"`
	Throttled int64 `json:"throttled,omitempty"`
}

// quotaPeriod is the usual period of a quota (cgroup-v2.rst of the kernel, cpu.max). One without threads that run does
// not count.
const quotaPeriod = 100 * time.Millisecond

// Starved reports whether a quota held the group for most of the time, and it had little of a processor. Many threads
// are held for long in a few periods: where the periods are not known, it had very little.
func (g Group) Starved() bool {
	if g.Held <= 0 || g.Held*2 < g.Time || g.Used*2 > g.Time {
		return false
	}
	if g.Periods == 0 {
		return g.Used*20 <= g.Time
	}
	return g.Throttled*2 >= g.Periods && time.Duration(g.Periods)*quotaPeriod*2 >= g.Time
}

// Ended is a node whose launch has left: with the command, or with the machine.
type Ended struct {
	Name string `json:"name"` // "node 1 gpu-07 (10.0.0.7)"
	Rank int    `json:"rank"` // node rank
	Port int    `json:"port"` // MASTER_PORT of the job
	// Mute: its launch took a connection and did not even greet.
	Mute bool `json:"mute,omitempty"`
}

// Gap is evidence that could not be had.
type Gap struct {
	What string `json:"what"` // "stacks of ranks 0 and 1"
	Why  string `json:"why"`  // "yama's ptrace_scope is 1"
	Fix  string `json:"fix,omitempty"`
}

// Role is what a process is in the job.
type Role string

// The roles of processes.
const (
	Launch    Role = "launch"    // launch before execve, or with --restarts
	Companion Role = "companion" // the process of launch that outlives execve
	Agent     Role = "agent"     // torchrun
	Rank      Role = "rank"      // a rank: RANK in its environment, and its parent has not the same
	MPIRun    Role = "mpirun"    // mpirun, its daemons and the ssh that start them
	Child     Role = "child"     // below a rank, or a shell of MPI: a DataLoader's worker, a compiler
	Wrapper   Role = "wrapper"   // a shell between an agent and its rank, or the Python that spawned ranks
	Holder    Role = "holder"    // no process of the job, but it holds a port that the job uses
)

// Proc is one process of the job.
type Proc struct {
	PID     int       `json:"pid"`
	Parent  int       `json:"parent"`
	Role    Role      `json:"role"`
	User    int       `json:"user"`
	Started time.Time `json:"started,omitzero"`
	// Earlier: it is older than the launch that started this node's command, and no process from which that launch was
	// started is above it, except process 1: as a rule a run that has ended has left it.
	Earlier bool     `json:"earlier,omitempty"`
	Comm    string   `json:"comm"`
	Argv    []string `json:"argv,omitempty"` // without what may be secret; cut after 4 kB
	// Env has of the environment only what places a process in its job: RANK, WORLD_SIZE, LOCAL_RANK, GROUP_RANK,
	// MASTER_ADDR, MASTER_PORT, TORCHELASTIC_*, GLOO_SOCKET_IFNAME and the like. Nil: not readable.
	Env   map[string]string `json:"env"`
	State string            `json:"state"` // R, S, D, T, t, Z
	// Signal has ended a zombie (state Z), as SIGKILL, or it has ended with Status.
	Signal string `json:"signal,omitempty"`
	Status int    `json:"status,omitempty"`
	// Background: it is not in the group of processes that its terminal has in the foreground.
	Background bool `json:"background,omitempty"`
	// Tracer is the process that traces this one; 0: none.
	Tracer int `json:"tracer,omitempty"`
	// Dumping: it has crashed, and the kernel writes its core.
	Dumping bool `json:"dumping,omitempty"`
	// Frozen is true if the freezer of a control group holds it, whose file below /sys Freezer is, as
	// fs/cgroup/job/cgroup.freeze. Else Freezer is of its own group, which may be frozen and not visible.
	Frozen  bool     `json:"frozen,omitempty"`
	Freezer string   `json:"freezer,omitempty"`
	Wchan   string   `json:"wchan,omitempty"`   // of the main thread; empty: not readable
	Syscall *Syscall `json:"syscall,omitempty"` // of the main thread; nil: running, or not readable
	Threads []Thread `json:"threads,omitempty"` // by name and wait channel
	Waits   []Wait   `json:"waits,omitempty"`   // of all threads of a rank and of what is below it, the main one first
	Moved   Moved    `json:"moved"`
	// Files are open regular files, and devices that may hang; each with whether its position moved.
	Files []File `json:"files,omitempty"`
	// Broken are paths that a rank which sleeps and wakes names, and that give an error of their file system.
	Broken []Broken `json:"broken,omitempty"`
	// Stacks are its Python threads, the main one first; nil: could not be had.
	Stacks []Stack `json:"stacks,omitempty"`
	// GIL is the thread that prevents the main one from running Python; nil: no such thread is seen.
	GIL *Held `json:"gil,omitempty"`
	// Last are the last lines of its standard output or error, where that is a file that can be read.
	Last []string `json:"last,omitempty"`
	// Libs are versions of libraries it has mapped: "nccl": "2.30.7". The key torch is there once libtorch is mapped.
	Libs map[string]string `json:"libs,omitempty"`
	// Net is its network namespace, 0: not readable.
	Net uint64 `json:"net,omitempty"`
	MPI *MPI   `json:"mpi,omitempty"` // of a process that starts ranks by MPI
	// Spawned: a rank that a script started itself, by multiprocessing: its environment does not number it.
	Spawned bool `json:"spawned,omitempty"`
	// Store is the address of a store that a process of the same kind on its node hosts, and that a rank without a
	// number in its environment has a connection to; "": not known.
	Store string `json:"store,omitempty"`
	// Still is true if all its threads stood still over the span, in the same place.
	Still bool `json:"still,omitempty"`
}

// Syscall is the system call that the main thread of a process is in.
type Syscall struct {
	Nr   int    `json:"nr"`
	Name string `json:"name"` // poll, futex, recvfrom, clock_nanosleep, ... ; empty: none of those that matter here
	// Limit is poll's own time limit; negative: none; 0: not a poll.
	Limit time.Duration `json:"limit,omitempty"`
	// Timed: it waits for a futex with a time limit.
	Timed bool `json:"timed,omitempty"`
	// FD is the descriptor that it reads from or waits for; -1: unknown.
	FD int `json:"fd"`
	// Socket is the inode of that descriptor's socket; 0: unknown, or no socket.
	Socket uint64 `json:"socket,omitempty"`
	// Asks is the other end of that socket, where it is of UDP and the call waits at most a minute, as for an answer.
	Asks netip.AddrPort `json:"asks,omitzero"`
	// Owner has the lock of a file that the call waits for; nil: no process of this node is seen to have it.
	Owner *Owner `json:"owner,omitempty"`
	// Terminal: that descriptor is of a terminal.
	Terminal bool `json:"terminal,omitempty"`
	// Path is the file that it is about, where the process is in state D and it can be read; Mount and Type are the mount
	// point and the type of its file system.
	Path  string `json:"path,omitempty"`
	Mount string `json:"mount,omitempty"`
	Type  string `json:"type,omitempty"`
	// Served: the disk of that file system has completed a read or write during the look.
	Served bool `json:"served,omitempty"`

	disk string // its device, as 8:1
}

// Thread is the threads of a process that have the same name and wait in the same place.
type Thread struct {
	Name  string `json:"name"`
	Wchan string `json:"wchan,omitempty"`
	State string `json:"state"`
	// Timed: they wait with a time limit, and go on by themselves.
	Timed bool `json:"timed,omitempty"`
	// Shared: they wait for what other processes share, as a semaphore of multiprocessing.
	Shared bool `json:"shared,omitempty"`
	Count  int  `json:"count"`
}

// Moved is what changed over the span, in the process and all below it.
type Moved struct {
	CPU      time.Duration `json:"cpu"`      // user and system, without threads that only poll for messages
	Switches int64         `json:"switches"` // voluntary and involuntary, of the process's main thread alone
	Read     int64         `json:"read"`     // bytes by read(2), of files and sockets
	Faults   int64         `json:"faults"`   // page faults
	Memory   int64         `json:"memory"`   // bytes of resident memory more
	Children bool          `json:"children,omitempty"`
	Writes   int64         `json:"writes,omitempty"`  // calls of write(2) of the process alone, also those that fail
	Written  int64         `json:"written,omitempty"` // bytes by these
	Files    bool          `json:"files,omitempty"`   // the position of an open file
}

// File is an open file of a process.
type File struct {
	FD    int    `json:"fd"`
	Path  string `json:"path"`
	Type  string `json:"type,omitempty"` // of its file system: fuse.sshfs, nfs4, ext4; empty: unknown
	Pos   int64  `json:"pos"`
	Moved bool   `json:"moved,omitempty"`
}

// Stack is one Python thread, innermost frame first.
type Stack struct {
	Thread string   `json:"thread"` // MainThread
	State  string   `json:"state"`  // active, idle
	Frames []string `json:"frames"` // "init_process_group (torch/distributed/distributed_c10d.py:2721)"
	// Values are what arguments and variables of functions of torch.distributed hold, of the innermost that has them:
	// "src": "1". Only a few names are read, and only numbers, names of workers, of types of placements
	// and of a folder where an extension is built.
	Values map[string]string `json:"values,omitempty"`
	From   string            `json:"from"` // py-spy, or what else made it
}

// Socket is one TCP socket.
type Socket struct {
	Net    uint64         `json:"net,omitempty"`
	PID    int            `json:"pid,omitempty"` // 0: no owner, or not known
	User   int            `json:"user"`
	Inode  uint64         `json:"inode,omitempty"`
	State  string         `json:"state"` // listen, syn-sent, established, close-wait, ...
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
	RecvQ  uint32         `json:"recvq"` // of a listener: connections that nobody has accepted
	SendQ  uint32         `json:"sendq"`
	// Forgot: this node's firewall tracks connections, and has no entry for this one, which is open.
	Forgot bool `json:"forgot,omitempty"`
	// Info is nil for a listener and where the kernel does not say.
	Info *Info `json:"info,omitempty"`
}

// Stuck reports whether data of an open connection is sent again and again without an answer, or a filter of the node
// itself drops it: then nothing counts as sent, though the other end would take it.
func (k Socket) Stuck() bool {
	return k.Info != nil && k.State != "syn-sent" && k.State != "listen" && k.Info.Backoff >= 3 &&
		!k.Remote.Addr().Unmap().IsLoopback() &&
		(k.Info.Unacked > 0 || k.SendQ > 0 && uint64(k.Info.Window) >= uint64(k.SendQ))
}

// Unanswered reports whether a call got no answer to its first packets.
func (k Socket) Unanswered() bool {
	return k.State == "syn-sent" && (k.Info == nil || k.Info.Retrans+uint32(k.Info.Backoff) >= 2)
}

// Unopened reports whether a call got no answer to its first packets for so long that no moment of loss explains it:
// the third of them was sent after 3 s and more.
func (k Socket) Unopened() bool {
	return k.State == stateSynSent && k.Info != nil && k.Info.Retrans >= 3 && !k.Remote.Addr().Unmap().IsLoopback()
}

// Knocks is how many connections are opened at once to see whether first packets get lost, in a job of few nodes.
const Knocks = 12

// Path is what a new connection to another node gave: of launch, to its own port there.
type Path struct {
	From    netip.Addr `json:"from"`
	To      netip.Addr `json:"to"`
	Outcome Outcome    `json:"outcome"`
	Here    string     `json:"here,omitempty"`    // the error of this node's own kernel, which sent nothing: "EINVAL"
	Long    bool       `json:"long,omitempty"`    // a long message went there within 2 s
	Back    bool       `json:"back,omitempty"`    // one went back
	Sounded bool       `json:"sounded,omitempty"` // datagrams are answered
	Full    bool       `json:"full,omitempty"`    // a packet as long as the interface's MTU arrived there
	Again   int        `json:"again,omitempty"`   // segments of these that had to be sent again
	// Sound is for how long long messages have gone there and back, at each look.
	Sound time.Duration `json:"sound,omitempty"`
	// Late is how many of some connections opened at once (Knocks) got no answer to their first packet, and Loses
	// whether several of them opened when that was sent again: short packets get lost, too.
	Knocks int  `json:"knocks,omitempty"`
	Late   int  `json:"late,omitempty"`
	Never  int  `json:"never,omitempty"` // of these, how many did not open
	Loses  bool `json:"loses,omitempty"`
}

// Crawl is what a connection of the job's to another node carries where data waits all the time, and the other end
// takes more.
type Crawl struct {
	From   netip.Addr    `json:"from"`
	To     netip.Addr    `json:"to"`
	Span   time.Duration `json:"span"`             // of the look, nanoseconds
	Rate   float64       `json:"rate"`             // bytes that arrived there in a second
	Before float64       `json:"before,omitempty"` // the highest rate that this connection had before
	Again  float64       `json:"again,omitempty"`  // of the bytes sent, the share that was sent again
}

// Way is what a node's own kernel shows of the way to another node, and of the way back.
type Way struct {
	To    netip.Addr `json:"to"`
	Wrong string     `json:"wrong,omitempty"` // why packets do not get there, or those from there not here: "this node …"
	Fix   string     `json:"fix,omitempty"`   // commands that show or repair that
	// Deleted: the interface that had this node's address does not exist any more, which Wrong says.
	Deleted bool     `json:"deleted,omitempty"`
	Tunnel  string   `json:"tunnel,omitempty"` // the interface of the way, if it is a tunnel: no cable
	Asked   bool     `json:"asked,omitempty"`  // ARP was asked for the address
	ARP     []string `json:"arp,omitempty"`    // the hardware addresses that answered, one for each machine
	Fixed   string   `json:"fixed,omitempty"`  // the hardware address that a program has entered for it
	Pings   bool     `json:"pings,omitempty"`  // its machine answers packets that are not of TCP
	// Left: the packets of a call without an answer leave this node; Empty: nothing arrives for it at an interface.
	Left  bool `json:"left,omitempty"`
	Empty bool `json:"empty,omitempty"`
	// Heard: packets of open connections arrived from there during the look; Moved: the other end acknowledged data.
	Heard bool `json:"heard,omitempty"`
	Moved bool `json:"moved,omitempty"`
	// Trail is where packets end on the way, as a router there says, and TrailFix what shows it.
	Trail    string     `json:"trail,omitempty"`
	TrailFix string     `json:"trailFix,omitempty"`
	Refused  bool       `json:"refused,omitempty"` // that router says that it has no way there
	Router   netip.Addr `json:"router,omitzero"`   // the first one on the way, by the kernel's routes
}

// Info is what the kernel's tcp_info says of a socket.
type Info struct {
	Sent        uint64        `json:"sent"`  // bytes
	Acked       uint64        `json:"acked"` // bytes
	Received    uint64        `json:"received"`
	Segments    uint32        `json:"-"`           // that have arrived, those that had arrived before included
	Again       uint64        `json:"-"`           // bytes that were sent again
	Unsent      uint32        `json:"-"`           // bytes that wait until the path takes them
	Full        time.Duration `json:"-"`           // how long the other end took no more
	Retransmits uint8         `json:"retransmits"` // of what is sent now, without an answer
	Backoff     uint8         `json:"backoff"`
	Retrans     uint32        `json:"retrans"` // in all
	Unacked     uint32        `json:"unacked"` // segments
	Window      uint32        `json:"window"`  // bytes that the other end takes; 0: none, or the kernel does not say
	LastSent    time.Duration `json:"lastSent"`
	LastRecv    time.Duration `json:"lastRecv"`
}

// Outcome is how a store answered.
type Outcome string

// The outcomes.
const (
	Answered    Outcome = "answered"
	Refused     Outcome = "refused"     // no process listens there
	Silent      Outcome = "silent"      // accepted, and no answer
	Unreachable Outcome = "unreachable" // no answer to SYN, or no route
	NoName      Outcome = "no-name"     // its name has no address here
	Garbage     Outcome = "garbage"     // an answer that no torch store gives
)

// Store is one store, as this node reached it.
type Store struct {
	Addr string         `json:"addr"`          // host:port as the job names it
	At   netip.AddrPort `json:"at,omitzero"`   // what was asked
	Net  uint64         `json:"net,omitempty"` // the network namespace that it was asked from
	// Kind is "master" (MASTER_ADDR of ranks or agents) or "endpoint" (--rdzv-endpoint).
	Kind    string          `json:"kind"`
	Outcome Outcome         `json:"outcome"`
	Err     string          `json:"err,omitempty"`  // the error, without addresses that may deceive
	Here    string          `json:"here,omitempty"` // the error of this node's own kernel, which sent nothing: "EINVAL"
	Took    time.Duration   `json:"took"`
	Board   *tcpstore.Board `json:"board,omitempty"` // Answered
}
