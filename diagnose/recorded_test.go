package diagnose

import (
	"bufio"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/tcpstore"
)

// recordedWant is what the recordings of LAUNCH_TEST_HANGS show, with the stacks of py-spy: one of the causes, and
// the ranks or nodes to blame; "" of a job that is healthy or slow only.
var recordedWant = map[string]string{
	"detail_rank_sleeps": "rank.before-init 3", "dup_rank": "rank.duplicate 2", "exit_barrier": "exit.barrier 0-1",
	"fork_dl": "rank.lock 3", "fuse_read": "rank.storage 3", "fuse_tools": "rank.storage 3",
	"fw_ephemeral_c10d": "store.dropped 2-3 h1", "fw_gloo": "mesh.dropped h0 h1", "fw_gloo_late": "mesh.dropped h0 h1",
	"fw_gloo_oneway0": "mesh.dropped h0 h1", "fw_master": "store.dropped h1",
	"gloo_127_both":    "node.ended|address.loopback",
	"gloo_decoy_route": "address.unreachable 2-3 h1", "gloo_ifname_missing": "node.ended 2-3",
	"gloo_lo_both": "node.ended|address.loopback", "host1_cut": "path.lost h0 h1", "init_barrier": "rank.absent 3",
	"is_host_nobody": "store.refused", "master_name": "store.name 2-3 h1",
	"mismatch_barrier": "collective.mismatch 1|collective.mismatch 3|collective.mismatch|collective.idle",
	"mtu":              "path.mtu h0 h1", "nnodes_differ_static_rev": "nnodes.differ h0 h1",
	"node0_missing_static": "store.refused node 0",
	"node_missing_static":  "node.missing node 1", "pylock": "rank.lock 3", "raise_": "node.ended 2-3 h1",
	"raise_caught": "rank.failed 3|rank.lock 3|rank.thread 3",
	"rank_never":   "rank.gone 3", "rank_sleeps": "rank.before-init 3",
	"rdzv_ids_differ": "rdzv.ids-differ h0 h1", "silent_listener": "store.silent", "stale_store": "store.foreign",
	"static_2of3": "node.missing node 1", "stopped": "rank.stopped 3", "store_stopped": "store.stopped",
	"world_size": "world.differs 3", "uneven": "rank.left 3",
}

// TestRecordedHangsAreNamed judges the recordings of a folder.
func TestRecordedHangsAreNamed(t *testing.T) {
	dir := os.Getenv("LAUNCH_TEST_HANGS")
	if dir == "" {
		t.Skip("needs recorded hangs: LAUNCH_TEST_HANGS=DIR")
	}
	folders, _ := filepath.Glob(filepath.Join(dir, "*", "plain"))
	for _, folder := range folders {
		name := filepath.Base(filepath.Dir(folder))
		t.Run(name, func(t *testing.T) {
			for _, stacks := range []bool{true, false} {
				scenes := readRecording(t, folder, stacks)
				if len(scenes) == 0 {
					t.Skip("nothing recorded")
				}
				answers := Judge(scenes)
				text := ""
				for _, a := range answers {
					text += "\n" + string(a.State)
					for _, w := range a.Why {
						text += "\n   " + brief(w) + ": " + w.Says
					}
				}
				want, known := recordedWant[name]
				got := ""
				if len(answers[0].Why) > 0 && answers[0].State != verdict.Running {
					got = brief(answers[0].Why[0])
				}
				switch {
				case !known:
					t.Logf("stacks %v:%s", stacks, text)
				case !slices.ContainsFunc(strings.Split(want, "|"), func(w string) bool { return strings.HasPrefix(got, w) }):
					t.Errorf("stacks %v: got %q, want %q%s", stacks, got, want, text)
				}
			}
		})
	}
}

func brief(w verdict.Verdict) string {
	text := w.Cause
	if len(w.Ranks) > 0 {
		text += " " + verdict.Spans(w.Ranks)
	}
	return strings.TrimSpace(text + " " + strings.Join(w.Nodes, " "))
}

// readRecording reads the first snapshot of each host.
func readRecording(t *testing.T, folder string, stacks bool) (out []scene.Scene) {
	for h := range 3 {
		host := "h" + strconv.Itoa(h)
		files, _ := filepath.Glob(filepath.Join(folder, "snap-a-"+host+"-uid12001*"))
		if len(files) == 0 {
			files, _ = filepath.Glob(filepath.Join(folder, "snap-*-"+host+"-uid0*"))
		}
		if len(files) == 0 {
			continue
		}
		out = append(out, readSnapshot(t, files[0], host, stacks))
	}
	return out
}

var (
	procLine = regexp.MustCompile(
		`^ +(\d+) ppid (\d+) (\S+) +state (\S) age (\d+)s cpu +([\d.]+)% ctxt \+(\d+) read ` +
			`\+(\d+) .*main: wchan (\S+) syscall ([^( ]+)\(?([^)|]*?)\)? \| (.*)$`,
	)
	threadRow = regexp.MustCompile(`^ +(\d+) thread\(s\) (\S+) +(\S) wchan (\S+)`)
	sockLine  = regexp.MustCompile(`^  (LISTEN|ESTAB|SYN-SENT|CLOSE-WAIT|[A-Z0-9-]+) (\d+) (\d+) (\S+) (\S+)(.*)$`)
	field     = regexp.MustCompile(
		`(pid=|bytes_sent:|bytes_acked:|bytes_received:|lastsnd:|lastrcv:|backoff:|unacked:|retrans:)([\d/]+)`,
	)
	storeHead = regexp.MustCompile(`^store (\S+?):(\d+)(:? )(.*)$`)
	gloo      = regexp.MustCompile(
		`^ +(/default_pg/0//(?:(\d+)//)?cpu//0/(\d+)) +gloo host=(\S+) addr=(\S+) .*\((\d+) bytes\)`,
	)
	share   = regexp.MustCompile(`^ +/(\S+)/torchelastic/assigned_ranks/(\d+) +'\[(\d+), (\d+)`)
	role    = regexp.MustCompile(`^ +/(\S+)/torchelastic/role_info/(\d+) .*"local_world_size": (\d+)`)
	initKey = regexp.MustCompile(`^ +init/ +'(\d+)'`)
	endKey  = regexp.MustCompile(`terminal_state/num_members +'(\d+)'`)
	state   = regexp.MustCompile(`^ +/torch\.rendezvous\.([^/ ]+) +c10d-state (\d+) bytes.*strings: (.*)$`)
)

func readSnapshot(t *testing.T, file, host string, stacks bool) scene.Scene {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := scene.Scene{Host: host, Boot: host, Taken: time.Unix(1e9, 0), Span: 3 * time.Second,
		Addrs: []netip.Addr{netip.MustParseAddr("10.88.0." + string(host[1]+1))}}
	var stack *scene.Proc
	for in := bufio.NewScanner(f); in.Scan(); {
		l := in.Text()
		switch {
		case strings.HasPrefix(l, "### py-spy dump ") && stacks:
			pid, _ := strconv.Atoi(strings.Fields(l)[3])
			stack = find(pointers(s.Procs), func(p *scene.Proc) bool { return p.PID == pid })
		case strings.HasPrefix(l, "### "):
			stack = nil
		case stack != nil:
			readStack(stack, l)
		default:
			readLine(&s, l)
		}
	}
	for i, st := range s.Stores { // the recorder's own connection was dropped too
		if st.Outcome == scene.Silent && slices.ContainsFunc(s.Sockets, func(k scene.Socket) bool {
			return k.State == "syn-sent" && k.Remote == st.At
		}) {
			s.Stores[i].Outcome = scene.Unreachable
		}
	}
	return s
}

func pointers[T any](all []T) (out []*T) {
	for i := range all {
		out = append(out, &all[i])
	}
	return out
}

func readStack(p *scene.Proc, l string) {
	l = strings.TrimPrefix(l, "  ")
	if strings.HasPrefix(l, "Thread ") {
		_, name, _ := strings.Cut(l, "\"")
		p.Stacks = append(p.Stacks, scene.Stack{Thread: strings.TrimSuffix(name, "\"")})
	} else if n := len(p.Stacks); n > 0 && strings.HasPrefix(l, "    ") {
		p.Stacks[n-1].Frames = append(p.Stacks[n-1].Frames, strings.TrimSpace(l))
	}
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

func readLine(s *scene.Scene, l string) {
	if m := procLine.FindStringSubmatch(l); m != nil {
		cpu, _ := strconv.ParseFloat(m[6], 64)
		p := scene.Proc{
			PID:     atoi(m[1]),
			Parent:  atoi(m[2]),
			Comm:    m[3],
			State:   m[4],
			Wchan:   m[9],
			Argv:    strings.Fields(m[12]),
			Role:    scene.Child,
			Syscall: &scene.Syscall{Name: m[10], FD: -1},
		}
		p.Moved = scene.Moved{
			CPU:      time.Duration(cpu / 100 * float64(s.Span)),
			Switches: int64(atoi(m[7])),
			Read:     int64(atoi(m[8])),
		}
		if args := strings.Split(m[11], ","); m[10] == "poll" && len(args) == 3 {
			p.Syscall.Limit = time.Duration(atoi(args[2])) * time.Millisecond
		} else if m[10] == "recvfrom" || m[10] == "read" {
			p.Syscall.FD = atoi(args[0])
		}
		if p.Comm == "pt_elastic" || strings.Contains(m[12], "torchrun") {
			p.Role = scene.Agent
		}
		s.Procs = append(s.Procs, p)
		return
	}
	n := len(s.Procs)
	if m := threadRow.FindStringSubmatch(l); m != nil && n > 0 {
		s.Procs[n-1].Threads = append(
			s.Procs[n-1].Threads,
			scene.Thread{Name: m[2], State: m[3], Wchan: m[4], Count: atoi(m[1])},
		)
	} else if env, ok := strings.CutPrefix(l, "         env "); ok && n > 0 {
		readEnv(s, &s.Procs[n-1], env)
	} else if m := storeHead.FindStringSubmatch(l); m != nil {
		s.Stores = append(s.Stores, readStore(m))
	} else if len(s.Stores) > 0 && strings.HasPrefix(l, "  /") || initKey.MatchString(l) {
		readKey(s.Stores[len(s.Stores)-1].Board, l)
	} else if m := sockLine.FindStringSubmatch(l); m != nil {
		s.Sockets = append(s.Sockets, readSocket(m))
	}
}

func readEnv(s *scene.Scene, p *scene.Proc, text string) {
	p.Env = map[string]string{}
	for _, kv := range strings.Fields(text) {
		k, v, _ := strings.Cut(kv, "=")
		p.Env[k] = v
	}
	if p.Env["RANK"] != "" && p.Role == scene.Child && !slices.ContainsFunc(s.Procs, func(q scene.Proc) bool {
		return q.PID == p.Parent && q.Env["RANK"] == p.Env["RANK"]
	}) {
		p.Role = scene.Rank
	}
}

func readStore(m []string) scene.Store {
	host := map[string]string{"h0": "10.88.0.1", "h1": "10.88.0.2", "head": "10.88.0.9"}[m[1]]
	if host == "" {
		host = m[1]
	}
	st := scene.Store{Addr: m[1] + ":" + m[2], Err: m[4]}
	st.At, _ = netip.ParseAddrPort(host + ":" + m[2])
	switch text := m[4]; {
	case strings.HasPrefix(text, "connect "):
		st.Outcome, st.Board = scene.Answered, &tcpstore.Board{Clients: -1, Ended: -1}
	case strings.Contains(text, "ConnectionRefused"):
		st.Outcome = scene.Refused
	case strings.Contains(text, "gaierror"):
		st.Outcome, st.At = scene.NoName, netip.AddrPort{}
	case strings.Contains(text, "No route"):
		st.Outcome = scene.Unreachable
	default:
		st.Outcome = scene.Silent
	}
	return st
}

func readKey(b *tcpstore.Board, l string) {
	if b == nil {
		return
	}
	b.Keys++
	if m := gloo.FindStringSubmatch(l); m != nil {
		addr, _ := netip.ParseAddrPort(m[5])
		b.Blobs = append(b.Blobs, tcpstore.Blob{Key: m[1], Group: atoi(m[2]), Index: atoi(m[3]), Host: m[4], Addr: addr,
			World: (atoi(m[6]) - 16 - len(m[4]) - 136) / 8})
	} else if m := share.FindStringSubmatch(l); m != nil {
		b.Shares = append(b.Shares, tcpstore.Share{Run: m[1], Node: atoi(m[2]), Base: atoi(m[3]), World: atoi(m[4])})
	} else if m := role.FindStringSubmatch(l); m != nil {
		b.Agents = append(b.Agents, tcpstore.Agent{Run: m[1], Node: atoi(m[2]), Local: atoi(m[3])})
	} else if m := initKey.FindStringSubmatch(l); m != nil {
		b.Clients = atoi(m[1])
	} else if m := endKey.FindStringSubmatch(l); m != nil {
		b.Ended = atoi(m[1])
	} else if m := state.FindStringSubmatch(l); m != nil {
		r := tcpstore.Rendezvous{ID: m[1]}
		for i, word := range strings.Split(m[3], "'") {
			if name := strings.TrimRight(word, "0123456789_"); i%2 == 1 && word != "" && name == "h" {
				r.Participants = append(r.Participants, tcpstore.Participant{Host: name})
			}
		}
		if len(r.Participants) == 0 {
			r.Participants = make([]tcpstore.Participant, map[string]int{"364": 1, "417": 2}[m[2]])
		}
		b.Rendezvous = append(b.Rendezvous, r)
	} else if strings.Contains(l, "/MASTER_ADDR") {
		for i := range b.Rendezvous {
			b.Rendezvous[i].Complete = b.Rendezvous[i].Complete || strings.Contains(l, "."+b.Rendezvous[i].ID+".")
		}
	}
}

func readSocket(m []string) scene.Socket {
	names := map[string]string{"ESTAB": "established"}
	k := scene.Socket{State: names[m[1]], RecvQ: uint32(atoi(m[2])), SendQ: uint32(atoi(m[3])), Local: addrPort(m[4]),
		Remote: addrPort(m[5]), Info: &scene.Info{}}
	if k.State == "" {
		k.State = strings.ToLower(m[1])
	}
	for _, f := range field.FindAllStringSubmatch(m[6], -1) {
		n := uint64(atoi(f[2]))
		switch f[1] {
		case "pid=":
			k.PID = int(n)
		case "bytes_sent:":
			k.Info.Sent = n
		case "bytes_acked:":
			k.Info.Acked = n
		case "bytes_received:":
			k.Info.Received = n
		case "lastsnd:":
			k.Info.LastSent = time.Duration(n) * time.Millisecond
		case "lastrcv:":
			k.Info.LastRecv = time.Duration(n) * time.Millisecond
		case "backoff:":
			k.Info.Backoff = uint8(n)
		case "unacked:":
			k.Info.Unacked = uint32(n)
		case "retrans:":
			_, all, _ := strings.Cut(f[2], "/")
			k.Info.Retrans = uint32(atoi(all))
		}
	}
	return k
}

func addrPort(s string) netip.AddrPort {
	s = strings.Replace(strings.Replace(s, "*", "0.0.0.0", 1), ":*", ":0", 1)
	if a, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	host, port, _ := cutPort(s)
	a, _ := netip.ParseAddr(strings.Trim(strings.Split(host, "%")[0], "[]"))
	n, _ := strconv.Atoi(port)
	return netip.AddrPortFrom(a, uint16(n))
}
