package envgen

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
)

func TestFilterReadsNCCLsNotation(t *testing.T) {
	names := []string{"lo", "docker0", "eth0", "eth1", "eth10", "ib0", "veth77"}
	for _, tt := range []struct{ value, want string }{
		{"eth", "eth0 eth1 eth10"},
		{"eth1", "eth1 eth10"},
		{"=eth1", "eth1"},
		{"=eth0,eth1", "eth0 eth1"},
		{"=eth0,=eth1", "eth0"}, // one mark, before the list
		{"==eth0", "eth0"},
		{"^docker,lo", "eth0 eth1 eth10 ib0 veth77"},
		{"^docker,lo,veth,eth", "ib0"},
		{"^=eth1", "lo docker0 eth0 eth10 ib0 veth77"},
		{"eth0:1", "eth0"}, // the port of an interface means nothing
		{"=eth0:1,ib0", "eth0 ib0"},
		{"eth0 ", ""},
		{"ETH0", ""},
		{",,ib,", "ib0"},
		{"", "lo docker0 eth0 eth1 eth10 ib0 veth77"},
		{"^", ""},
		{"=", "lo docker0 eth0 eth1 eth10 ib0 veth77"},
		{":5", "lo docker0 eth0 eth1 eth10 ib0 veth77"},
	} {
		f := parseFilter(tt.value, maxIfs)
		var got []string
		for _, n := range names {
			if f.match(n, -1) {
				got = append(got, n)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.value, diff)
		}
	}
}

func TestFilterReadsPorts(t *testing.T) {
	for _, tt := range []struct {
		value string
		name  string
		port  int
		want  bool
	}{
		{"mlx5_0:1", "mlx5_0", 1, true},
		{"mlx5_0:1", "mlx5_0", 2, false},
		{"mlx5_0", "mlx5_0", 2, true},
		{"=mlx5_1:1:0:2", "mlx5_1", 1, true}, // rail and plane after the port
		{"^mlx5_0:1", "mlx5_0", 1, false},
		{"^mlx5_0:1", "mlx5_0", 2, true},
		{"mlx5_0:x", "mlx5_0", 1, false}, // atoi: port 0
	} {
		if got := parseFilter(tt.value, maxIBs).match(tt.name, tt.port); got != tt.want {
			t.Errorf("%q takes %s port %d: %v, want %v", tt.value, tt.name, tt.port, got, tt.want)
		}
	}
}

func TestFilterKeepsNoMoreThanNCCL(t *testing.T) {
	many := strings.Repeat("x,", maxIfs) + "eth0"
	if parseFilter(many, maxIfs).match("eth0", -1) {
		t.Errorf("name %d of a list is taken, NCCL keeps %d", maxIfs+1, maxIfs)
	}
	if got := parseFilter("x", maxIfs).interfaces(make([]fabric.Interface, 3), ""); len(got) != 0 {
		t.Errorf("interfaces without an address are taken: %v", got)
	}
}

func TestLeadingIntReadsAsC(t *testing.T) {
	for s, want := range map[string]int{
		"1": 1, " 2": 2, "+3": 3, "-4": -4, "0x10": 16, "0X1f": 31, "010": 8, "08": 0, "1,2": 1, "7seven": 7,
		"true": 0, "": 0, "-": 0, "0x": 0, "0xg": 0, "yes": 0,
	} {
		if got := leadingInt(s, 0); got != want {
			t.Errorf("leadingInt(%q, 0) = %d, want %d", s, got, want)
		}
	}
	if got := leadingInt("010", 10); got != 10 {
		t.Errorf("leadingInt in base 10 reads 010 as %d", got)
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{"", "^", "=", "^=", "=eth0", "^docker,lo,veth,eth", "==eth0", "a:1,b:2:3", ":", ",:,",
		"eth0:99999999999999999999"} {
		f.Add(s, "eth0", 1)
	}
	f.Fuzz(func(t *testing.T, value, name string, port int) {
		p := parseFilter(value, maxIfs)
		if len(p.items) > maxIfs {
			t.Fatalf("%d names, NCCL keeps %d", len(p.items), maxIfs)
		}
		for _, it := range p.items {
			if it.name == "" || strings.ContainsAny(it.name, ",:") {
				t.Fatalf("%q: name %q", value, it.name)
			}
		}
		if !strings.HasPrefix(value, "^") && p.match(name, port) == parseFilter("^"+value, maxIfs).match(name,
			port) && value != "" && value[0] != '=' {
			t.Fatalf("%q and its negation agree on %q:%d", value, name, port)
		}
		if name != "" && !strings.ContainsAny(name, ",:^=") && !parseFilter("="+name, maxIfs).match(name, -1) {
			t.Fatalf("=%s does not take %s", name, name)
		}
	})
}
