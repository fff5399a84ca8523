package mpi

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// While launch waits for a host, it has a shell on the others, and perhaps a copy of itself.
func TestNothingRemainsWhenTheHeadIsKilled(t *testing.T) {
	for name, while := range map[string]struct {
		inject func(*trial)
		begun  func(*trial) bool // it has got so far
	}{
		"a host is asked": {
			inject: func(tr *trial) {
				tr.drop(sick, "iif eth0")
				tr.Hosts[1].Sh("echo sleep 2 >>/home/user/.bashrc") // so that launch is not at its end yet
			},
			begun: func(tr *trial) bool { return strings.Contains(tr.Hosts[1].left(), "launch") },
		},
		"all hosts check": {
			inject: func(tr *trial) { tr.drop(sick, "ip saddr 10.77.0.2 "+syn) }, // they call each other for a while
			begun:  func(tr *trial) bool { return strings.Contains(tr.Hosts[1].left(), "launch check") },
		},
	} {
		t.Run(dashed(name), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "Open MPI 5.0", 3)
			while.inject(tr)
			ctx, kill := context.WithCancel(t.Context())
			go func() {
				defer kill()
				for end := time.Now().Add(plainLimit); !while.begun(tr) && time.Now().Before(end); {
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Second)
			}()
			o := tr.runUntil(ctx, launchSide)
			if !o.Cut {
				t.Fatalf("launch has ended before: exit %d\n%s", o.Exit, o.Said)
			}
			if strings.Contains(o.Said, "a world of ") {
				t.Error("the job has been started")
			}
			left := strings.Split(strings.TrimSpace(tr.remains(grace)), "\n")
			left = slices.DeleteFunc(left, func(line string) bool { // the next store of the head removes its folder
				return line == "" || strings.HasPrefix(line, "host0 has /tmp/launch-store-")
			})
			if len(left) > 0 {
				t.Errorf("left on the hosts: %q", left)
			}
		})
	}
}

// The head's network is lost while all hosts check: no host hears of its end, and each ends its own part.
func TestNothingRemainsWhenTheNetworkOfTheHeadIsLost(t *testing.T) {
	if !slices.Contains(asked, "network-lost") {
		t.Skip("takes three minutes: LAUNCH_MPIBENCH=network-lost")
	}
	tr := newTrial(t, "Open MPI 5.0", 3)
	tr.drop(sick, "ip saddr 10.77.0.2 "+syn) // they call each other for a while
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- tr.runUntil(ctx, launchSide) }()
	for end := time.Now().Add(plainLimit); !strings.Contains(tr.Hosts[1].left(), "launch check"); {
		if time.Now().After(end) {
			t.Fatalf("no check has begun: %s", tr.Hosts[1].left())
		}
		time.Sleep(100 * time.Millisecond)
	}
	tr.Hosts[0].Cut()
	began := time.Now()
	time.Sleep(10 * time.Second)
	kill()
	o := <-ended
	if left := tr.Hosts[1].left(); !strings.Contains(left, "/tmp/launch-") {
		t.Errorf("the copy has gone before its time: %s\n%s", left, o.Said)
	}
	for end := began.Add(4 * time.Minute); tr.Hosts[1].left()+tr.Hosts[2].left() != ""; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatalf("left on the hosts: %s%s", tr.Hosts[1].left(), tr.Hosts[2].left())
		}
	}
	t.Logf("nothing is left after %s", time.Since(began).Round(time.Second))
}
