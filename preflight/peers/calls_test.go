package peers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/internal/finding"
	"launch/internal/sidechannel"
	"launch/preflight/calls"
)

// calling has n nodes call each other as in a start: two neighbours on either
// side, two farther away, and node rank 0. answer says what comes of a call.
func calling(n int, answer func(from, to int, c *calls.Call)) []Post {
	far := max(2, int(float64(n)*0.4))
	return posts(n, func(rank int, p *Post) {
		p.Calls = nil
		var to []int
		for _, d := range []int{1, n - 1, far, n - far} {
			to = append(to, (rank+d)%n)
		}
		to = append(to, 0)
		slices.Sort(to)
		for _, t := range slices.Compact(to) {
			if t == rank {
				continue
			}
			c := calls.Call{To: t, Addr: fmt.Sprintf("10.0.0.%d:4000", t), RTT: time.Millisecond, MTU: 1500, IfMTU: 1500}
			answer(rank, t, &c)
			p.Calls = append(p.Calls, c)
		}
	})
}

func drop(c *calls.Call) { c.Cause, c.Err = sidechannel.Dropped, "i/o timeout" }

func TestWhoIsToBlameForCallsThatFail(t *testing.T) {
	for _, tc := range []struct {
		name   string
		n      int
		bad    func(from, to int) bool
		id     string
		what   string
		unfits []int
	}{
		{"one of three drops what comes in", 3, func(_, to int) bool { return to == 2 }, "peer.reach",
			"calls to host2 do not get through (2 of 2 tried), while those from it do", []int{2}},
		{"one of eight drops what comes in", 8, func(_, to int) bool { return to == 5 }, "peer.reach",
			"calls to host5 do not get through (4 of 4 tried), while those from it do", []int{5}},
		{"one of eight drops what goes out", 8, func(from, _ int) bool { return from == 5 }, "peer.reach",
			"calls from host5 do not get through (4 of 4 tried), while those to it do", []int{5}},
		{"one of five is cut off", 5, func(from, to int) bool { return from == 4 || to == 4 }, "peer.reach",
			"calls to and from host4 do not get through (8 of 8 tried)", []int{4}},
		{"rank 0 drops what comes in", 6, func(_, to int) bool { return to == 0 }, "peer.reach",
			"calls to host0 do not get through (5 of 5 tried), while those from it do", []int{0}},
		{"two nodes, one way", 2, func(from, _ int) bool { return from == 1 }, "peer.reach",
			"calls from host1 to host0 do not get through, while those back do", []int{1}},
		{"two nodes, both ways", 2, func(_, _ int) bool { return true }, "peer.reach",
			"calls between host0 and host1 do not get through in either direction", []int{1}},
		{"one pair of five", 5, func(from, to int) bool { return from+to == 5 && from*to == 6 }, "peer.reach",
			"calls between host2 and host3 do not get through in either direction", []int{3}},
		{"all", 4, func(_, _ int) bool { return true }, "peer.reach", "calls do not get through between any of the 4 nodes",
			[]int{0, 1, 2, 3}},
		{"two racks", 8, func(from, to int) bool { return from/5 != to/5 }, "peer.reach",
			"two groups of nodes: host5, host6, host7, and the other 5", []int{5, 6, 7}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := compareCalls(calling(tc.n, func(from, to int, c *calls.Call) {
				if tc.bad(from, to) {
					drop(c)
				}
			}))
			if len(got) != 1 {
				t.Fatalf("got %d findings: %+v", len(got), got)
			}
			if got[0].ID != tc.id || !strings.Contains(got[0].What, tc.what) || !slices.Equal(got[0].unfit, tc.unfits) ||
				got[0].Fix == "" || got[0].Breaks == "" {
				t.Errorf("got %s %q, unfit %v; want %q, %v", got[0].ID, got[0].What, got[0].unfit, tc.what, tc.unfits)
			}
		})
	}
}

// Any one or two nodes that are deaf, mute or cut off are named, and no other.
func TestTheRightNodesAreNamedInAnyNetwork(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		n := 4 + random.IntN(61)
		sick := map[int]int{random.IntN(n): random.IntN(3)}
		if n >= 12 {
			sick[random.IntN(n)] = random.IntN(3)
		}
		got := compareCalls(calling(n, func(from, to int, c *calls.Call) {
			in, deaf := sick[to]
			out, mute := sick[from]
			if deaf && in != 1 || mute && out != 0 {
				drop(c)
			}
		}))
		var unfit, want []int
		for _, v := range got {
			unfit = append(unfit, v.unfit...)
		}
		for r := range sick {
			want = append(want, r)
		}
		slices.Sort(unfit)
		slices.Sort(want)
		if !slices.Equal(unfit, want) {
			t.Fatalf("%d nodes, sick %v: named %v by %+v", n, sick, unfit, got)
		}
	}
}

func TestHealthyNodesGiveNoFinding(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 64} {
		if got := compareCalls(calling(n, func(_, _ int, c *calls.Call) {
			c.Offset, c.Doubt = time.Millisecond,
				time.Millisecond
		})); len(got) > 0 {
			t.Errorf("%d nodes: %+v", n, got)
		}
	}
}

func TestEachCauseHasItsWords(t *testing.T) {
	for cause, want := range map[sidechannel.Cause]string{
		sidechannel.Refused: "connection refused", sidechannel.Dropped: "no answer within 8s",
		sidechannel.Reset: "opens and is then cut off", sidechannel.Silent: "nothing answers",
		sidechannel.NoRoute: "no route",
		sidechannel.NoHost:  "host unreachable", sidechannel.Denied: "denied", sidechannel.Token: "LAUNCH_TOKEN",
		sidechannel.Stranger: "is not launch", sidechannel.Unknown: "what it was",
	} {
		got := compareCalls(calling(3, func(_, to int, c *calls.Call) {
			if to == 1 {
				c.Cause, c.Err = cause, "what it was"
			}
		}))
		if len(got) != 1 || !strings.Contains(got[0].What, want) || got[0].Fix == "" {
			t.Errorf("%s: got %+v", cause, got)
		}
	}
}

func TestWhoAnswersInAnotherNodesPlaceIsNamed(t *testing.T) {
	nodes := calling(3, func(_, to int, c *calls.Call) {
		if to == 1 {
			c.Other = "id2"
		}
	})
	for i := range nodes {
		nodes[i].ID = fmt.Sprintf("id%d", i)
	}
	got := compareCalls(nodes)
	if len(got) != 1 || got[0].ID != "peer.identity" || !strings.Contains(got[0].What, "host2 answers at 10.0.0.1:4000") {
		t.Errorf("got %+v", got)
	}
}

// Clones of one virtual machine have one hardware address: a switch knows one place for it.
func TestTwoNodesWithOneHardwareAddressAreNamed(t *testing.T) {
	for mac, want := range map[string]string{"52:54:00:12:34:56": "peer.identity", "": "peer.reach"} {
		nodes := calling(3, func(from, to int, c *calls.Call) {
			if from != 0 && to != 0 {
				c.Cause, c.Err = sidechannel.Dropped, "i/o timeout"
			} else if to == 2 {
				c.IfMTU, c.Late, c.Tried = 1500, 12, 12
			}
		})
		nodes[1].Traits.PeerMAC, nodes[2].Traits.PeerMAC = mac, mac
		if late := compareLoss(nodes, nil); (len(late) > 0) == (mac != "") {
			t.Errorf("%q: of new connections that open late: %+v", mac, late)
		}
		got := compareCalls(nodes)
		if len(got) != 1 || got[0].ID != want || !strings.Contains(got[0].What, mac) {
			t.Errorf("%q: got %+v", mac, got)
		}
	}
}

// Where several machines have one address, each calls itself in place of the
// others. Nodes that share a machine share its address rightly.
func TestOneAddressOfSeveralMachines(t *testing.T) {
	const bridge = "172.17.0.2"
	nodes := func(n int, same func(rank int) bool, edit func(rank int, tr *Traits)) []Post {
		all := calling(n, func(from, to int, c *calls.Call) {
			if same(to) {
				c.Addr = bridge + ":4000"
				c.Cause, c.Err = sidechannel.Refused, "connection refused"
			}
		})
		for i := range all {
			all[i].Traits.Machine = fmt.Sprint("machine", i)
			edit(i, &all[i].Traits)
		}
		return all
	}
	plain := func(int, *Traits) {}
	everyone, two := func(int) bool { return true }, func(rank int) bool { return rank == 1 || rank == 3 }
	for _, tc := range []struct {
		name  string
		posts []Post
		ids   string
		says  string
		fix   string
	}{
		{"all in containers of their own", nodes(3, everyone, plain), "peer.identity",
			"3 machines have the address 172.17.0.2: host", "docker run --network host"},
		{"of many", nodes(64, everyone, plain), "peer.identity", "64 machines have the address 172.17.0.2: host",
			"and 60 more"},
		{"two of five", nodes(5, two, plain), "peer.identity", "2 machines have the address 172.17.0.2: host", "ip addr"},
		{"two clones of one disk", nodes(5, two, func(rank int,
			tr *Traits) {
			tr.Image = map[bool]string{true: "clone"}[two(rank)]
		}), "peer.identity",
			"one /etc/machine-id", "systemd-machine-id-setup"},
		{"nodes of one machine behind its own firewall", nodes(3, everyone, func(_ int, tr *Traits) { tr.Machine = "m" }),
			"peer.reach", "connection refused", "iptables"},
		{"containers of one machine, each with its own network", nodes(3, everyone, func(rank int, tr *Traits) {
			tr.Machine, tr.Net = "m", fmt.Sprint(rank)
		}), "peer.identity", "3 containers have the address 172.17.0.2: host", "docker run --network host"},
		{"containers of one machine in one network", nodes(3, everyone, func(rank int, tr *Traits) {
			tr.Machine, tr.Net = "m", "1"
		}), "peer.reach", "connection refused", "iptables"},
		{"which machine is not known", nodes(3, everyone, func(_ int, tr *Traits) { tr.Machine = "" }), "peer.reach",
			"connection refused", "iptables"},
	} {
		var ids []string
		got := compareCalls(tc.posts)
		for _, v := range got {
			ids = append(ids, v.ID)
		}
		if strings.Join(ids, " ") != tc.ids || !strings.Contains(got[0].What, tc.says) ||
			!strings.Contains(got[0].What+got[0].Fix, tc.fix) {
			t.Errorf("%s: got %q: %+v", tc.name, ids, got)
		}
	}
}

func TestAnAddressThatTheCallerHasNoFamilyFor(t *testing.T) {
	all := calling(3, func(from, to int, c *calls.Call) {
		if from == 2 || to == 2 {
			c.Cause, c.Err = sidechannel.NoRoute, "network is unreachable"
		}
	})
	for i := range all {
		all[i].Traits.Family = map[bool]string{false: "IPv4", true: "IPv6"}[i == 2]
	}
	got := Decide(all, nil).Findings
	if len(got) != 1 || got[0].ID != "peer.reach" || !strings.Contains(got[0].What, "no route; host") ||
		!strings.Contains(got[0].What, "IPv6") || !strings.Contains(got[0].Fix, "--addr") {
		t.Errorf("one cause: got %+v", got)
	}
}

func TestANarrowInterfaceIsNoHoleOnTheWay(t *testing.T) {
	got := compareCalls(calling(3, func(from, to int, c *calls.Call) {
		if c.IfMTU = 9000; from == 2 {
			c.IfMTU = 1500
		}
		if c.MTU = 9000; from == 2 || to == 2 {
			c.MTU = 1500
		}
		c.Hole = to == 2
	}))
	if len(got) > 0 {
		t.Errorf("got %+v", got)
	}
}

func TestWhoseClockIsOff(t *testing.T) {
	const allowed = 5 * time.Second
	at := func(clock map[int]time.Duration, n int) []judged {
		return compareClocks(calling(n, func(from, to int, c *calls.Call) {
			c.Offset, c.Doubt = clock[to]-clock[from]+50*time.Microsecond, 100*time.Microsecond
		}), allowed)
	}
	for _, tc := range []struct {
		name  string
		clock map[int]time.Duration
		n     int
		want  string
	}{
		{"none", map[int]time.Duration{1: time.Second}, 4, ""},
		{"one of four is behind", map[int]time.Duration{2: -20 * time.Second}, 4,
			"the clock of host2 is 20.0 s behind the others"},
		{"rank 0 is the one", map[int]time.Duration{0: time.Hour}, 5, "the clock of host0 is 1h0m0s ahead of the others"},
		{"two apart", map[int]time.Duration{1: time.Minute}, 2, "the clocks of host0 and host1 are 1m0s apart"},
		{"two of nine", map[int]time.Duration{3: 30 * time.Second, 7: -10 * time.Second}, 9,
			"the clocks of host3, host7 are up to 30.0 s ahead of the others"},
	} {
		got := at(tc.clock, tc.n)
		switch {
		case tc.want == "" && len(got) > 0, tc.want != "" &&
			(len(got) != 1 || got[0].What != tc.want || got[0].Status != finding.Warn):
			t.Errorf("%s: got %+v", tc.name, got)
		}
	}
	if got := compareClocks(calling(3, func(_, _ int, c *calls.Call) { c.Offset, c.Doubt = 6*time.Second, 2*time.Second }),
		allowed); len(got) > 0 {
		t.Errorf("within doubt: got %+v", got)
	}
}

func TestMergeTellsTheSameOnce(t *testing.T) {
	warn := finding.Warnf("/dev/shm has 64 MiB").Named("shm.size")
	got := Merge(posts(6, func(i int, p *Post) {
		p.Local = finding.Report{warn}
		if i == 4 {
			p.Local = append(p.Local, finding.Failf("7 GPUs, 8 asked").Named("gpu.count"))
		}
		if i > 2 {
			p.Local = append(p.Local, finding.Warnf("GPU %d is hot", i).Named("gpu.throttle"))
		}
	}))
	want := []string{
		"fail gpu.count host4: 7 GPUs, 8 asked",
		"warn gpu.throttle 3 of 6 nodes: host3: GPU 3 is hot; host4: GPU 4 is hot; host5: GPU 5 is hot",
		"warn shm.size all 6 nodes: /dev/shm has 64 MiB",
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, f := range got {
		if text := fmt.Sprintf("%s %s %s", f.Status, f.ID, f.What); text != want[i] {
			t.Errorf("got %q, want %q", text, want[i])
		}
	}
}

// What one log reports of the other nodes is short, and not what only its own
// node has said already.
func TestOthersAreToldInBrief(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	full := finding.Report{
		finding.Passf("fine").Named("clock"), finding.Skipf("not here").Named("gpu.count"),
		finding.Warnf("nothing answers yet").Named("store.answers"),
		finding.Warnf("%s", long).Named("shm.size").See("/dev/shm", "%s", long).Breaking("%s", long).Do("%s", long),
		finding.Warnf("a").Named("limits.nofile"), finding.Warnf("b").Named("limits.pids"), finding.Warnf("c").
			Named("storage.space"),
	}
	brief := Brief(full)
	if b, err := json.Marshal(brief); err != nil || len(brief) != inBrief || len(b) > 500 ||
		slices.ContainsFunc(brief, func(f finding.Finding) bool { return f.ID == "store.answers" }) {
		t.Errorf("%d findings in %d bytes: %s", len(brief), len(b), b)
	}
	if b := Brief(full[:3]); len(b) != 0 {
		t.Errorf("a healthy node reports %+v", b)
	}
	ps := posts(4, func(i int, p *Post) {
		p.Local = finding.Report{finding.Warnf("nofile is 1024").Named("limits.nofile")}
		if i == 0 {
			p.Local = append(p.Local, finding.Warnf("mine").Named("shm.size"))
		}
	})
	if got := Elsewhere(ps, 0); len(got) != 1 || got[0].What != "all 4 nodes: nofile is 1024" {
		t.Errorf("got %+v", got)
	}
	if got := Elsewhere(ps, 3); len(got) != 2 {
		t.Errorf("another node's log: %+v", got)
	}
}

// A gateway may translate the address of a node that reaches its callers, and is in another network than all of them.
func TestANodeBehindNAT(t *testing.T) {
	for addr, want := range map[string]bool{"172.17.0.2:4000": true, "10.0.7.2:4000": false} {
		all := calling(3, func(_, to int, c *calls.Call) {
			if to == 2 {
				c.Addr, c.Cause, c.Err = addr, sidechannel.NoRoute, "network is unreachable"
			}
		})
		got := compareCalls(all)
		if len(got) != 1 || strings.Contains(got[0].Fix, "--network host") != want {
			t.Errorf("%s: %+v", addr, got)
		}
	}
}
