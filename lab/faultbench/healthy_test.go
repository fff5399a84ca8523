package faultbench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oddity is something that is unusual and harmless.
type oddity struct {
	name string
	make func(tr *trial, r *rand.Rand)
}

func oddities() []oddity {
	some := func(tr *trial, r *rand.Rand) *host { return tr.hosts[r.IntN(len(tr.hosts))] }
	return []oddity{
		{"docker0", func(tr *trial, r *rand.Rand) { some(tr, r).Decoy("docker0", "172.17.0.1/16") }},
		{"a bridge of virtual machines on all", func(tr *trial, _ *rand.Rand) {
			tr.each(func(h *host) { h.Decoy("virbr0", "192.168.122.1/24") })
		}},
		{"one node comes 3 s late", func(tr *trial, r *rand.Rand) { some(tr, r).late = 3 * time.Second }},
		{"a VPN on one", func(tr *trial, r *rand.Rand) {
			h := some(tr, r)
			h.Run("", "ip", "tuntap", "add", "wg0", "mode", "tun")
			h.Run("", "ip", "addr", "add", "10.200.0.7/32", "dev", "wg0")
			h.Run("", "ip", "link", "set", "wg0", "mtu", "1420", "up")
		}},
		{"another MTU of an interface that is not used", func(tr *trial, r *rand.Rand) {
			h := some(tr, r)
			h.Decoy("storage0", "192.0.2.9/24")
			h.Run("", "ip", "link", "set", "storage0", "mtu", "9000")
		}},
		{"eight GPUs and InfiniBand on all", func(tr *trial, _ *rand.Rand) { tr.equip(onIB) }},
		{"eight GPUs and RoCE on all", func(tr *trial, _ *rand.Rand) { tr.equip(onRoCE) }},
		{"a second address", func(tr *trial, r *rand.Rand) {
			some(tr, r).Run("", "ip", "addr", "add", "10.78.0."+strconv.Itoa(1+r.IntN(200))+"/24", "dev", "eth0")
		}},
	}
}

// A healthy start with a few oddities says nothing of it, and runs.
func TestHealthyStartsGiveNoAlarm(t *testing.T) {
	n := 12
	if full {
		n = 200
	}
	first := uint64(1)
	if s := os.Getenv("LAUNCH_FAULTBENCH_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
	}
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			tr := newTrial(t, 2+r.IntN(4))
			var names []string
			all := oddities()
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, o := range all[:1+r.IntN(3)] {
				o.make(tr, r)
				names = append(names, o.name)
			}
			tr.run()
			alarm := tr.alarm()
			kept.Lock()
			kept.healthy++
			if alarm != "" {
				kept.alarms = append(kept.alarms, fmt.Sprintf("seed %d (%s): %s", seed, strings.Join(names, ", "), alarm))
			}
			kept.Unlock()
			if alarm != "" {
				t.Errorf("%s: %s\n%s", strings.Join(names, ", "), alarm, tr.told())
			}
		})
	}
}

// alarm is what a healthy start should not have said or done.
func (tr *trial) alarm() string {
	for _, h := range tr.hosts {
		for _, l := range h.lines {
			if l.said.Type == "finding" && (l.said.Status == "warn" || l.said.Status == "fail") {
				return fmt.Sprintf("%s: %s %s: %s", h.Name, l.said.Status, l.said.ID, l.said.What)
			}
		}
		if h.status != 0 {
			return fmt.Sprintf("%s ended with %d", h.Name, h.status)
		}
		if !strings.Contains(h.out.String(), "rank ") {
			return h.Name + " ran no rank"
		}
	}
	return ""
}
