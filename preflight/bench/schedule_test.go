package bench

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEveryRoundIsAMatchingThatLeavesOutOneAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 200).Draw(t, "n")
		for _, round := range Rounds(n, rapid.String().Draw(t, "nonce"), rapid.IntRange(0, 5).Draw(t, "most")) {
			idle := 0
			for rank := range n {
				other, ok := Partner(rank, n, round)
				if !ok {
					idle++
					continue
				}
				if back, ok := Partner(other, n, round); !ok || back != rank || other == rank || other < 0 || other >= n {
					t.Fatalf("n %d round %d: %d meets %d, who meets %d (%v)", n, round, rank, other, back, ok)
				}
			}
			if idle != n%2 {
				t.Fatalf("n %d round %d: %d are idle", n, round, idle)
			}
		}
	})
}

func TestAllRoundsTogetherAreEachPairOnce(t *testing.T) {
	for n := range 40 {
		met := map[[2]int]int{}
		for _, round := range Rounds(n, "x", 0) {
			for rank := range n {
				if other, ok := Partner(rank, n, round); ok && rank < other {
					met[[2]int{rank, other}]++
				}
			}
		}
		for pair, times := range met {
			if times != 1 {
				t.Errorf("n %d: %v meet %d times", n, pair, times)
			}
		}
		if want := n * (n - 1) / 2; len(met) != want {
			t.Errorf("n %d: %d pairs met, want %d", n, len(met), want)
		}
	}
}

func TestTwoRoundsJoinAllNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 300).Draw(t, "n")
		seen, rounds := map[int]bool{0: true}, Rounds(n, rapid.String().Draw(t, "nonce"), 2)
		for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
			for _, round := range rounds {
				if other, ok := Partner(queue[0], n, round); ok && !seen[other] {
					seen[other] = true
					queue = append(queue, other)
				}
			}
		}
		if len(seen) != n {
			t.Fatalf("n %d rounds %v: only %d hang together", n, rounds, len(seen))
		}
	})
}

func TestTheRoundsFollowFromNumberAndNonce(t *testing.T) {
	if diff := cmp.Diff(Rounds(1000, "a", 3), Rounds(1000, "a", 3)); diff != "" {
		t.Error(diff)
	}
	begins := map[int]bool{}
	for _, nonce := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		rounds := Rounds(1000, nonce, 3)
		begins[rounds[0]] = true
		if len(rounds) != 3 || slices.Max(rounds) >= 999 {
			t.Errorf("%s: %v", nonce, rounds)
		}
	}
	if len(begins) < 6 {
		t.Errorf("eight nonces begin at %d rounds only", len(begins))
	}
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 3, 4: 3, 5: 3, 1000: 3} {
		if got := len(Rounds(n, "a", 3)); got != want {
			t.Errorf("%d nodes: %d rounds, want %d", n, got, want)
		}
	}
}

func TestLikeRailsMeet(t *testing.T) {
	port := func(name, net string) Port {
		p := Port{Name: name, Link: "Ethernet"}
		if net != "" {
			p.Net = netip.MustParsePrefix(net)
		}
		return p
	}
	for _, tt := range []struct {
		name string
		a, b []Port
		want [][2]int
	}{
		{"by name, in any order", []Port{port("eth0", ""), port("eth1", "")}, []Port{port("eth1", ""), port("eth0", "")},
			[][2]int{{0, 1}, {1, 0}}},
		{"one is missing", []Port{port("mlx5_0", ""), port("mlx5_1", ""), port("mlx5_2", "")},
			[]Port{port("mlx5_0", ""), port("mlx5_2", "")}, [][2]int{{0, 0}, {2, 1}}},
		{"by network", []Port{port("ens1", "10.0.1.1/24"), port("ens2", "10.0.2.1/24")},
			[]Port{port("eth0", "10.0.2.9/24"), port("eth1", "10.0.1.9/24")}, [][2]int{{0, 1}, {1, 0}}},
		{"by order", []Port{port("a", "10.0.1.1/24")}, []Port{port("b", "10.9.1.1/24")}, [][2]int{{0, 0}}},
		{"none", []Port{port("a", "")}, nil, nil},
	} {
		if diff := cmp.Diff(tt.want, Match(tt.a, tt.b)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
