package hostlist

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostfile(t *testing.T) {
	text := "# head\nnode1 slots=8\n\nroot@node2:4 # two\nnode1\n  fd00::1 slots=2 max-slots=4\n"
	got, err := Hostfile(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"node1", "node2", "fd00::1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMachines(t *testing.T) {
	text := "node1 slots=8 max_slots=9\nroot@node2:4\nnode3 user=ada\nfd00::1\nnode1 slots=x\n"
	got, err := Machines(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Machine{{Name: "node1", Slots: 8}, {Name: "node2", User: "root", Slots: 4}, {Name: "node3", User: "ada"},
		{Name: "fd00::1"}, {Name: "node1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzHostfile(f *testing.F) {
	f.Add("a slots=1\nb:2\n")
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := Hostfile(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, h := range hosts {
			if h == "" || strings.ContainsAny(h, " \t\n#@") {
				t.Errorf("host %q", h)
			}
		}
	})
}
