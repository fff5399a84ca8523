package hostwatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/remote"
	"launch/diagnose/scene"
	"launch/internal/finding"
	"launch/internal/process"
)

// watching returns a watch whose hosts are this machine, reached by a script, and what it says.
func watching(t *testing.T, script string, names ...string) (*watch, *[]string) {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	said := &[]string{}
	w := &watch{spec: Spec{Agent: []string{agent}, Host: "head"}, sockets: new(process.Table), losses: make(chan loss, 9),
		print: func(_ finding.From, f finding.Finding, _ string) { *said = append(*said, f.ID+" "+f.What) }}
	for _, name := range names {
		w.spec.Hosts = append(w.spec.Hosts, Host{Name: name, Target: name})
		w.hosts = append(w.hosts, &host{Host: w.spec.Hosts[len(w.hosts)], watch: w})
	}
	return w, said
}

func TestAHostIsLostByWhatALoginShows(t *testing.T) {
	failed := &remote.Failed{Agent: "ssh", Words: "connection closed"}
	const boot = "exec sh -c \"$2\""
	for _, tt := range []struct {
		name, script, boot string
		why                error
		want               string // in why it is lost; "": it is not
	}{
		{"a shell again", boot, "", failed, ""},
		{"a machine that was started again", boot, "another", failed, "started again"},
		{"the first login gets no answer", "echo 'ssh: connect to host h port 22: Connection timed out' >&2; exit 255", "",
			nil, "no login: ssh: connect to host h port 22: Connection timed out"},
		{"packets without an answer, and no login", "echo 'Connection refused' >&2; exit 255", "", remote.ErrUnacked,
			"packets to it have no answer; no login: Connection refused"},
		{"an sshd that refuses after a shell has ended", "echo 'Connection refused' >&2; exit 255", "", failed, ""},
		{"a user who may not log in", "echo 'Permission denied' >&2; exit 255", "", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := watching(t, tt.script, "h")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			h := w.hosts[0]
			h.boot = tt.boot
			ok := h.login(ctx, tt.why)
			if h.session != nil {
				h.session.Close()
			}
			if got := h.session != nil; ok != got {
				t.Errorf("login: %v, a shell: %v", ok, got)
			}
			select {
			case l := <-w.losses:
				if tt.want == "" || !strings.Contains(l.why, tt.want) {
					t.Errorf("lost: %q, want %q", l.why, tt.want)
				}
			default:
				if tt.want != "" {
					t.Error("not lost")
				}
			}
		})
	}
}

// Hosts that are lost together are one finding; where all are, this host is looked at first.
func TestHostsThatAreLostTogether(t *testing.T) {
	w, said := watching(t, "", "h1", "h2", "h3")
	lost := func(i int) loss { return loss{host: w.hosts[i], why: "packets to it have no answer"} }
	w.judge(t.Context(), []loss{lost(1)})
	w.judge(t.Context(), []loss{lost(0), lost(2)})
	w.judge(t.Context(), []loss{lost(0), lost(1), lost(2)})
	w.judge(t.Context(), []loss{{host: w.hosts[1]}})
	want := []string{"node.lost h2 was lost", "node.lost 2 hosts were lost together",
		"node.lost this host has lost all others", "node.lost h2 answers again"}
	if len(*said) != len(want) {
		t.Fatalf("%q", *said)
	}
	for i, s := range *said {
		if !strings.HasPrefix(s, want[i]) {
			t.Errorf("%q, want %q", s, want[i])
		}
	}
}

func TestAShellThatStopsIsSilent(t *testing.T) {
	s, err := remote.Open(t.Context(), remote.Agent{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Beat(10 * time.Second); err != nil {
		t.Errorf("a shell that answers: %v", err)
	}
	printed, err := s.Do("echo $$")
	if err != nil || len(printed) != 1 {
		t.Fatal(printed, err)
	}
	pid, _ := strconv.Atoi(printed[0])
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := s.Beat(300 * time.Millisecond); !errors.Is(err, remote.ErrSilent) {
		t.Errorf("one that is stopped: %v", err)
	}
	s.End()
}

func TestOnlyRanksThatWaitAreStill(t *testing.T) {
	rank := scene.Proc{Role: scene.Rank, Moved: scene.Moved{CPU: 9 * time.Millisecond, Read: 4 << 10}}
	busy := rank
	busy.Moved.CPU = 3 * time.Second
	reads := rank
	reads.Moved.Read = 1 << 20
	shell := busy
	shell.Role = scene.MPIRun
	for _, tt := range []struct {
		name  string
		procs []scene.Proc
		want  bool
	}{
		{"waits", []scene.Proc{rank, shell}, true}, {"computes", []scene.Proc{rank, busy}, false},
		{"reads", []scene.Proc{reads}, false},
	} {
		if got := still([]scene.Scene{{Span: 3 * time.Second, Procs: tt.procs}}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
