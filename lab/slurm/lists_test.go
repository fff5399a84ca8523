package slurm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"launch/internal/hostlist"
)

// made returns a host list with names of a few forms, as a cluster's grow.
func made(r *rand.Rand) string {
	numbers := func() string {
		var parts []string
		width := 1 + r.IntN(4)
		for range 1 + r.IntN(4) {
			low := r.IntN(120)
			part := fmt.Sprintf("%0*d", width, low)
			if r.IntN(2) == 0 {
				part += fmt.Sprintf("-%0*d", width, low+r.IntN(12))
			}
			parts = append(parts, part)
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	var items []string
	for range 1 + r.IntN(4) {
		item := []string{"gpu", "n", "c7-n", "rack3-", "x1000c0s", "dgx-a100-", "a.b-"}[r.IntN(7)]
		switch r.IntN(5) {
		case 0: // a single name
			item += fmt.Sprintf("%0*d", 1+r.IntN(3), r.IntN(200))
		case 1:
			item += numbers() + "-ib"
		case 2:
			item += numbers() + "b" + numbers()
		default:
			item += numbers()
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}

// launch reads node lists as scontrol does: made ones, and those that Slurm itself writes for the same names.
func (c *cluster) lists(t *testing.T) {
	const many = 150
	r := rand.New(rand.NewPCG(20, 26))
	var input []string
	for range many {
		input = append(input, made(r))
	}
	cmd := c.command(t.Context(), "login", "bash", "-c", `while read -r list; do
	names=$(scontrol show hostnames "$list" | paste -sd,)
	echo "$list $names $(scontrol show hostlist "$names") $(scontrol show hostlistsorted "$names")"
done`)
	cmd.Stdin = strings.NewReader(strings.Join(input, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != many {
		t.Fatalf("%d lines; want %d", len(lines), many)
	}
	compared := 0
	for _, line := range lines {
		f := strings.Fields(string(line))
		if len(f) != 4 { // a form that Slurm does not have
			continue
		}
		compared++
		want := strings.Split(f[1], ",")
		for i, list := range []string{f[0], f[2], f[3]} {
			got, err := hostlist.Expand(list)
			if err != nil {
				t.Errorf("%v", err)
			}
			if i == 2 {
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q; scontrol has %q", list, got, want)
			}
		}
	}
	if t.Log(compared, "lists compared"); compared < many/2 {
		t.Errorf("scontrol printed %s", out)
	}
}
