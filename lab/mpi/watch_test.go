package mpi

import (
	"context"
	"strings"
	"testing"
	"time"
)

// gate is the file that the last rank of a job waits for.
const gate = Job + "/gate"

// watched starts a job under launch whose ranks wait until the gate is open, and returns its outcome once the sick
// host has a process of the program.
func (tr *trial) watched(ctx context.Context, flags ...string) <-chan outcome {
	tr.t.Helper()
	tr.line = append(append(flags, tr.line...), gate)
	done := make(chan outcome, 1)
	go func() { done <- tr.runUntil(ctx, launchSide) }()
	for end := time.Now().Add(launchLimit); tr.Hosts[sick].Sh("pgrep -x world || true") == ""; {
		select {
		case o := <-done:
			tr.t.Fatalf("the job does not start: exit %d\n%s", o.Exit, o.Said)
		case <-time.After(200 * time.Millisecond):
		}
		if time.Now().After(end) {
			tr.t.Fatal("the job does not start")
		}
	}
	return done
}

// open opens the gate.
func (tr *trial) open() { tr.Hosts[sick].Write(gate, "") }

// shells waits until launch's process next to mpirun has a shell on the sick host.
func (tr *trial) shells() {
	tr.t.Helper()
	for end := time.Now().Add(launchLimit); !strings.Contains(tr.Hosts[sick].Sh("ps -eo args"), "/bin/sh -s"); {
		if time.Sleep(200 * time.Millisecond); time.Now().After(end) {
			tr.t.Fatal("no shell of launch on the host")
		}
	}
}

// mpirun notices a host that is lost after minutes. launch names it, and with --fail-fast ends the job.
func TestALostHostOfMpirunIsNamed(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, Each[0], 3)
	ctx, cancel := context.WithTimeout(t.Context(), 2*launchLimit)
	defer cancel()
	done := tr.watched(ctx, "--hang-after", "5s", "--fail-fast")
	tr.shells()
	cut := time.Now()
	tr.Hosts[sick].Cut()
	o := <-done
	t.Logf("%.1f s after the cut, exit %d\n%s", time.Since(cut).Seconds(), o.Exit, o.Said)
	if o.Cut || !strings.Contains(o.Said, "host2 was lost") || strings.Contains(o.Said, "host1 was lost") {
		t.Error("host2 is not named, or the job goes on")
	}
	tr.Hosts[sick].Heal()
	if left := tr.remains(2 * grace); left != "" {
		t.Errorf("left on the hosts:\n%s", left)
	}
}

// A rank that is stopped is named by what launch sees on its host, where nothing of it was installed.
func TestAStoppedRankOfMpirunIsNamed(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, Each[0], 3)
	ctx, cancel := context.WithTimeout(t.Context(), 4*launchLimit)
	defer cancel()
	// An agent that needs a variable, as ssh needs SSH_AUTH_SOCK. Open MPI knows an agent by its name.
	tr.all("install -d " + Job + "/bin; printf '#!/bin/sh\\n[ \"$KEYS\" = here ] && exec /usr/bin/ssh \"$@\"\\n' >" + Job +
		"/bin/ssh; chmod 755 " + Job + "/bin/ssh")
	tr.env = []string{"KEYS=here", "OMPI_MCA_plm_rsh_agent=" + Job + "/bin/ssh"}
	done := tr.watched(ctx, "--hang-after", "5s")
	tr.Hosts[sick].Sh("pkill -STOP -x world")
	named := func() bool {
		said := tr.said.String()
		return strings.Contains(said, "rank.stopped") && strings.Contains(said, "host2")
	}
	for end := time.Now().Add(2 * launchLimit); !named() && time.Now().Before(end); {
		time.Sleep(time.Second)
	}
	tr.open()
	tr.Hosts[sick].Sh("pkill -CONT -x world")
	o := <-done
	t.Logf("exit %d\n%s", o.Exit, o.Said)
	if !o.whole(3) || o.Exit != 0 {
		t.Error("the job has not run on")
	}
	if !named() {
		t.Error("the stopped rank is not named")
	}
	if left := tr.remains(grace); left != "" {
		t.Errorf("left on the hosts:\n%s", left)
	}
}
