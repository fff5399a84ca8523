package bandwidth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/preflight/bench"
)

// whole is each finding of a simulated cluster: ID and what it says.
func whole(s simulated, seed string) (b Verdict, text string) {
	_, b = s.run(seed)
	for _, f := range b.Findings {
		text += f.ID + ": " + f.What + "\n" + f.Fix + "\n"
	}
	return b, text
}

func quiet(nodes, rails int) simulated {
	return simulated{r: rand.New(rand.NewPCG(7, 7)), nodes: nodes, rails: rails, noise: 0.01, sick: map[sickPort]factor{}}
}

func TestWhoIsSlowIsSaidInWords(t *testing.T) {
	for _, tt := range []struct {
		name         string
		nodes, rails int
		sick         map[sickPort]factor
		named        []int
		wants        []string
		never        []string
	}{
		{"a port", 8, 2, map[sickPort]factor{{3, 1}: {0.5, 0.5}}, []int{3},
			[]string{"bench.port: rail mlx5_1 of node-0003 is slow both ways",
				"3 of the 3 partners it was measured with and again with node-",
				"mlxlink -d mlx5_1"}, []string{"bench.node", "no other rail"}},
		{"what it sends", 8, 2, map[sickPort]factor{{3, 1}: {0.5, 1}}, []int{3},
			[]string{"bench.port: rail mlx5_1 of node-0003 sends slowly"}, nil},
		{"what it receives", 8, 2, map[sickPort]factor{{3, 1}: {1, 0.5}}, []int{3},
			[]string{"bench.port: rail mlx5_1 of node-0003 receives slowly"}, nil},
		{"a node", 8, 2, map[sickPort]factor{{3, 0}: {0.5, 0.5}, {3, 1}: {0.4, 0.4}}, []int{3},
			[]string{"bench.node: node-0003 is slow both ways on all its rails (mlx5_0, mlx5_1)"}, []string{"bench.port"}},
		{"the only rail of a node", 8, 1, map[sickPort]factor{{3, 0}: {0.5, 0.5}}, []int{3},
			[]string{"bench.port", "it has no other rail, so this may be the node itself"}, nil},
		{"one of three", 3, 1, map[sickPort]factor{{2, 0}: {0.5, 0.5}}, []int{2},
			[]string{"bench.port: rail mlx5_0 of node-0002"}, nil},
		{"a rail of two nodes", 2, 2, map[sickPort]factor{{0, 1}: {0.5, 0.5}}, []int{0, 1},
			[]string{"bench.way: rail mlx5_1 between node-0000 and node-0001 is slow in both directions",
				"a third node shows"}, nil},
		{"a rail of all nodes", 4, 2, map[sickPort]factor{{0, 1}: {0.5, 0.5}, {1, 1}: {0.5, 0.5}, {2, 1}: {0.5, 0.5},
			{3, 1}: {0.5, 0.5}}, []int{0, 1, 2, 3}, []string{"bench.rail: rail mlx5_1 is slower on all 4 nodes than the " +
			"rails of its kind"}, []string{"bench.node"}},
		{"no port", 8, 2, nil, nil, nil, []string{"bench"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := quiet(tt.nodes, tt.rails)
			s.sick = tt.sick
			b, text := whole(s, "seed")
			if diff := cmp.Diff(tt.named, b.Named); diff != "" {
				t.Errorf("named (-want +got):\n%s%s", diff, text)
			}
			for _, w := range tt.wants {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in\n%s", w, text)
				}
			}
			for _, w := range tt.never {
				if strings.Contains(text, w) {
					t.Errorf("%q in\n%s", w, text)
				}
			}
		})
	}
}

// pair is two nodes that met on one rail, at a speed both ways.
func pair(a, b bench.Port, speed float64) []Rates {
	return []Rates{
		{Rank: 0, Name: "host0", Ports: []bench.Port{a},
			Samples: []bench.Sample{{From: 0, To: 1, FromPort: a.Name, ToPort: b.Name, Kind: "tcp",
				Result: bench.Result{Out: bench.Flow{Speed: speed}, Back: bench.Flow{Speed: speed}}}}},
		{Rank: 1, Name: "host1", Ports: []bench.Port{b}},
	}
}

func TestTwoNodesAreHeldAgainstTheirPorts(t *testing.T) {
	port := bench.Port{Name: "eth0", Rate: 10, Floor: 0.9e9}
	if b := Compare(pair(port, port, 1.1e9), nil); len(b.Findings) > 0 {
		t.Errorf("a healthy pair: %+v", b.Findings)
	}
	b := Compare(pair(port, port, 0.4e9), nil)
	if len(b.Findings) != 1 || b.Findings[0].ID != "bench.way" ||
		!strings.Contains(b.Findings[0].What, "0.40 GB/s of 0.90 GB/s expected (44 %)") {
		t.Errorf("below its ports' own rate: %+v", b.Findings)
	}
	unknown := port
	unknown.Floor = 0
	if b := Compare(pair(port, unknown, 0.4e9), nil); len(b.Findings) > 0 {
		t.Errorf("nothing is known of one port: %+v", b.Findings)
	}
}

func TestALinkThatTrainedLowerIsFoundWithoutAByte(t *testing.T) {
	var posts []Rates
	for rank := range 4 {
		p := bench.Port{Name: "mlx5_0", HCA: "mlx5_0", Rate: 400, Lanes: 4, Link: "InfiniBand"}
		if rank == 2 {
			p.Rate, p.Lanes = 200, 2
		}
		posts = append(posts, Rates{Rank: rank, Name: fmt.Sprintf("node-%d", rank), Ports: []bench.Port{p}})
	}
	b := Compare(posts, nil)
	if len(b.Findings) != 1 || !strings.HasPrefix(b.Findings[0].What,
		"rail mlx5_0 of node-2 runs at 200 Gb/s with 2 of 4 lanes, on 3 other nodes at 400") {
		t.Errorf("%+v", b.Findings)
	}
}

func TestRailsOfOtherNamesAreOneWhereTheyMet(t *testing.T) {
	posts := pair(bench.Port{Name: "ens3"}, bench.Port{Name: "eth1"}, 1e9)
	if b := Compare(posts, nil); len(b.Rails) != 1 || b.Rails[0].Ports != 2 {
		t.Errorf("%+v", b.Rails)
	}
}

func TestAPortThatIsInUseIsASkipAndOneThatIsNotReachedIsNamed(t *testing.T) {
	posts := pair(bench.Port{Name: "eth0"}, bench.Port{Name: "eth0"}, 0)
	posts[0].Samples[0].Cause, posts[0].Samples[0].Err = bench.CauseBusy, "eth0 of host1 is in use: 3.1 GB/s"
	if b := Compare(posts, nil); len(b.Findings) != 1 || b.Findings[0].Status != "skip" ||
		b.Findings[0].ID != "bench.busy" {
		t.Errorf("%+v", b.Findings)
	}
	posts[0].Samples[0].Cause, posts[0].Samples[0].Err = "refused", "connect: refused"
	if b := Compare(posts, nil); len(b.Findings) != 1 || b.Findings[0].ID != "bench.measured" ||
		!strings.Contains(b.Findings[0].What, "between host0 and host1: connect: refused") || len(b.Named) != 2 {
		t.Errorf("%v %+v", b.Named, b.Findings)
	}
}

func TestARailIsHeldAgainstWhatItUsuallyDid(t *testing.T) {
	line := func(day int, node string, out, in float64) string {
		return fmt.Sprintf(`{"at":"2024-11-%02dT10:00:00Z","node":"%s","rail":"eth0","kind":"tcp","out":%g,"in":%g}`+"\n",
			day, node, out, in)
	}
	worse := ""
	for day := range 15 {
		worse += line(day+1, "host0", 2e9*math.Pow(0.96, float64(day)), 1e9)
	}
	for _, tt := range []struct {
		name, lines string
		others      int
		want        string
	}{
		{"the last time", line(17, "host0", 1.6e9, 1e9) + line(18, "host1", 9e9, 9e9), 0,
			"eth0 of host0 lost 38 % since 2024-11-17: 1.0 GB/s instead of 1.6 GB/s when sending"},
		{"as it was", line(1, "host0", 1.1e9, 1e9), 0, ""},
		{"what was slow once", line(1, "host0", 1.1e9, 1e9) + line(2, "host0", 0.2e9, 0.2e9) + line(3, "host0", 1.1e9, 1.1e9),
			0, ""},
		{"still as slow as it became", line(16, "host0", 1.6e9, 1e9) + line(17, "host0", 1.6e9, 1e9) +
			line(18, "host0", 1e9, 1e9), 0, "lost 38 % since 2024-11-17"},
		{"a little each time", worse, 0, "lost 33 % since 2024-11-10: 1.0 GB/s instead of 1.5 GB/s"},
		{"another kind", strings.ReplaceAll(line(1, "host0", 9e9, 9e9), "tcp", "verbs"), 0, ""},
		{"lines that were cut", line(17, "host0", 1.6e9, 1e9) + "no line\n" + line(18, "host0", 1, 1)[:40], 2,
			"lost 38 % since 2024-11-17"},
	} {
		was, others, err := ReadHistory(strings.NewReader(tt.lines), "host0")
		if err != nil || others != tt.others {
			t.Errorf("%s: %d, %v", tt.name, others, err)
		}
		posts := pair(bench.Port{Name: "eth0"}, bench.Port{Name: "eth0"}, 1e9)
		posts[0].Was = was
		text := ""
		for _, f := range Compare(posts, nil).Findings {
			text += f.What
		}
		if !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
	for _, text := range []string{"#!/bin/sh\nexec train\n", `{"at":"2024-11-01T1`} {
		if _, _, err := ReadHistory(strings.NewReader(text), "host0"); err == nil ||
			!strings.Contains(err.Error(), "not a history of launch bench") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAMomentIsNamedAsPeopleDo(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) // a Sunday
	for _, tt := range []struct {
		ago  time.Duration
		want string
	}{{2 * time.Hour, "10:00"}, {13 * time.Hour, "Saturday 23:00"}, {6*24*time.Hour + time.Hour,
		"Monday 11:00"}, {7 * 24 * time.Hour, "2026-11-15"}} {
		if got := since(now.Add(-tt.ago), now); got != tt.want {
			t.Errorf("%s ago: %q, want %q", tt.ago, got, tt.want)
		}
	}
}

func FuzzReadHistory(f *testing.F) {
	f.Add(`{"at":"2026-11-01T10:00:00Z","node":"a","rail":"eth0","kind":"tcp","out":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		was, _, err := ReadHistory(strings.NewReader(text), "a")
		for _, p := range was {
			if err != nil || p.Node != "a" || p.Rail == "" {
				t.Errorf("%+v, %v", p, err)
			}
		}
	})
}

func TestTheFloorFollowsFromRateMTUAndPCIe(t *testing.T) {
	node := fabric.Node{
		Interfaces: []fabric.Interface{
			{Name: "ib0", Kind: "physical", MTU: 2044}, {Name: "eth0", Kind: "physical", Up: true, Running: true, Speed: 10000,
				MTU: 1500, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}},
			{Name: "eth1", Kind: "physical", Speed: 100000, MTU: 9000}, {Name: "veth0", Kind: "veth", Speed: 10000, MTU: 1500},
		},
		PCI: []fabric.PCI{{Addr: "a", Gen: 5, MaxGen: 5, Lanes: 16, MaxLanes: 16},
			{Addr: "b", Gen: 3, MaxGen: 5, Lanes: 8, MaxLanes: 16}},
	}
	for _, tt := range []struct {
		name string
		r    rail.Rail
		want float64 // GB/s
	}{
		{"NDR in a wide slot", rail.Rail{HCA: "mlx5_0", PCI: "a", Link: "InfiniBand", Rate: 400}, 0.8 * 50 * 2048 / 2078},
		{"NDR in half a slot of an old machine", rail.Rail{HCA: "mlx5_0", PCI: "b", Link: "InfiniBand", Rate: 400},
			0.8 * 0.8 * 8},
		{"RoCE", rail.Rail{HCA: "mlx5_0", PCI: "a", Link: "Ethernet", Netdev: "eth1", Rate: 100}, 0.8 * 12.5 * 4096 / 4178},
		{"TCP", rail.Rail{Netdev: "eth0", Rate: 10}, 0.8 * 1.25 * 1448 / 1538},
		{"TCP that a processor limits", rail.Rail{Netdev: "eth1", Rate: 100}, 0},
		{"no wire", rail.Rail{Netdev: "veth0", Rate: 10}, 0},
	} {
		if got := ratePort(node, tt.r, tt.name).Floor / 1e9; got < tt.want*0.999 || got > tt.want*1.001 {
			t.Errorf("%s: %.3f GB/s, want %.3f", tt.name, got, tt.want)
		}
	}
	if _, err := Ports(node, netip.MustParseAddr("10.0.0.1"), []string{"eth9"}); err == nil ||
		!strings.Contains(err.Error(), "eth0") {
		t.Errorf("of a rail that is not there: %v", err)
	}
	ports, err := Ports(node, netip.MustParseAddr("10.0.0.1"), nil)
	if err != nil || len(ports) != 1 || ports[0].Name != "eth0" || ports[0].Net.String() != "10.0.0.1/24" {
		t.Errorf("%+v, %v", ports, err)
	}
}

func TestWhoWasDisturbedIsNotJudged(t *testing.T) {
	// Of 2 s each way at 1 GB/s; the port is good for 12.5 GB/s.
	own := []bench.Sample{
		{From: 0, To: 2, FromPort: "eth0", ToPort: "eth1",
			Result: bench.Result{Out: bench.Flow{Carried: 1e9}, Back: bench.Flow{Carried: 1e9}}},
		{From: 2, To: 3, FromPort: "eth0", ToPort: "eth0",
			Result: bench.Result{Out: bench.Flow{Carried: 7e9}, Back: bench.Flow{Carried: 9e9}}},
		{From: 1, To: 2, FromPort: "eth1", ToPort: "eth0",
			Result: bench.Result{Out: bench.Flow{Carried: 1e9}, Back: bench.Flow{Carried: 3e9}}},
	}
	port := bench.Port{Name: "eth0", Rate: 100, Net: netip.MustParsePrefix("10.0.0.1/24")}
	lo := port
	lo.Net = netip.MustParsePrefix("127.0.0.1/8")
	failed := append(slices.Clone(own), bench.Sample{From: 2, To: 4, FromPort: "eth0", ToPort: "eth0", Cause: "silent"})
	// Rank 2 sent by eth0 7e9 + 3e9, and received 9e9 + 1e9.
	for _, tt := range []struct {
		name  string
		port  bench.Port
		own   []bench.Sample
		moved fabric.Traffic
		want  string
	}{
		{"its own, with headers and answers", port, own, fabric.Traffic{Sent: 11.5e9, Received: 11.5e9}, ""},
		{"another sends", port, own, fabric.Traffic{Sent: 15.4e9, Received: 11e9},
			"they sent 1.5 GB/s and received 0.0000 GB/s"},
		{"another receives", port, own, fabric.Traffic{Sent: 10e9, Received: 16.4e9}, "received 2.0 GB/s"},
		{"counts less than was sent", port, own, fabric.Traffic{}, ""},
		{"one failed, and what it sent is not known", port, failed, fabric.Traffic{Sent: 90e9}, ""},
		{"another, where the rate is not known", bench.Port{Name: "eth0"},
			[]bench.Sample{{To: 2, FromPort: "eth0", ToPort: "eth0",
				Result: bench.Result{Out: bench.Flow{Carried: 4e6, Speed: 9e6}, Back: bench.Flow{Carried: 4e6, Speed: 4e6}}}},
			fabric.Traffic{Sent: 4.9e6, Received: 10e6}, "received 0.0025 GB/s"},
		{"nothing was measured", port, nil, fabric.Traffic{Sent: 90e9}, ""},
		{"counts for both ends", lo, own, fabric.Traffic{Sent: 90e9, Received: 90e9}, ""},
	} {
		if got := Disturbed(tt.port, "node-2", 2, tt.moved, 2*time.Second, tt.own); !strings.Contains(got, tt.want) ||
			tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}

	// A port that is slow since another job came is not named, and its partners are not either.
	s := quiet(8, 2)
	s.sick = map[sickPort]factor{{3, 1}: {0.5, 0.5}}
	posts, _ := s.measure("seed")
	b := Compare(posts, nil)
	if len(b.Named) != 1 {
		t.Fatalf("%v %+v", b.Named, b.Findings)
	}
	posts[3].Disturbed = map[string]string{"mlx5_1": "mlx5_1 of node-0003 was used by others"}
	b = Compare(posts, nil)
	if len(b.Named) > 0 || len(b.Again) > 0 || len(b.Findings) != 1 || b.Findings[0].ID != "bench.busy" ||
		!strings.Contains(b.Findings[0].What, "in 4 of its pairs") {
		t.Errorf("%v %v %+v", b.Named, b.Again, b.Findings)
	}
	// Who is measured once more with a disturbed one is not confirmed by that.
	posts[3].Disturbed = nil
	for i := range posts {
		for _, m := range posts[i].Samples {
			if m.Round < 0 {
				posts[m.From+m.To-3].Disturbed = map[string]string{"mlx5_1": "used"}
			}
		}
	}
	if b = Compare(posts, nil); len(b.Named) > 0 || b.Unnamed > 0 {
		t.Errorf("%v, %d cleared: %+v", b.Named, b.Unnamed, b.Findings)
	}
}

func TestAPortIsInUseByItsOwnRate(t *testing.T) {
	for _, tt := range []struct {
		rate, sent, received float64
		busy                 bool
	}{{100, 0.5e9, 0, false}, {100, 0, 0.7e9, true}, {1, 7e6, 1e6, true}, {0, 4e6, 4e6, false}, {0, 1e6, 9e6, true}} {
		if got := Busy(bench.Port{Name: "eth0", Rate: tt.rate}, "host0", tt.sent, tt.received); (got != "") != tt.busy {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
