package start

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/preflight/network"
	"launch/rendezvous"
)

func TestALongSilenceOfTheStoreIsExplainedOnce(t *testing.T) {
	said := 0
	o := observer{ui: ui.New(io.Discard, io.Discard, ui.Options{Env: os.Getenv})}
	o.silent = func(_ context.Context, long bool) string {
		if !long {
			return ""
		}
		said++
		return "a limit"
	}
	o.event(rendezvous.Event{Kind: rendezvous.Lost, Text: "no answer"})
	o.saySilent(t.Context(), time.Now())
	if said > 0 {
		t.Error("it is explained at once")
	}
	later := time.Now().Add(silentAfter + time.Second)
	o.event(rendezvous.Event{Kind: rendezvous.Back})
	o.saySilent(t.Context(), later)
	if said > 0 {
		t.Error("it is explained after the store has answered")
	}
	o.event(rendezvous.Event{Kind: rendezvous.Lost, Text: "no answer"})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	o.saySilent(over, later) // the wait ended before it knew
	said = 0
	o.saySilent(t.Context(), later)
	o.saySilent(t.Context(), later)
	if said != 1 {
		t.Errorf("it is explained %d times", said)
	}
	if got := o.reason(); got != "a limit" {
		t.Errorf("at the end the reason is %q", got)
	}
	o.event(rendezvous.Event{Kind: rendezvous.Back})
	if got := o.reason(); got != "" {
		t.Errorf("after an answer the reason is %q", got)
	}
}

// At the end of the wait, a node says again what it has found, in the place of a guess.
func TestTheEndOfAWaitRepeatsTheReason(t *testing.T) {
	lost := fmt.Errorf("%w: 192.0.2.1:29377: i/o timeout", rendezvous.ErrUnreachable)
	s := Start{store: &storeaddr.Place{Endpoints: []string{"192.0.2.1:29377"}}}
	if e := Failure(s.blameWay(t.Context(), lost), nil); !strings.Contains(e.Fix, "is --store right") {
		t.Errorf("without a reason: %s", e.Fix)
	}
	s.wait.why = "a limit on new connections"
	e := Failure(s.blameWay(t.Context(), lost), nil)
	if !strings.HasPrefix(e.Fix, "a limit") || e.Code != exit.Unreachable {
		t.Errorf("with a note: %d %s", e.Code, e.Fix)
	}
	finds := func(what string) {
		s.Local = finding.Report{finding.Warnf("%s", what).Named("store.answers").Do("ip rule")}
	}
	for _, what := range []string{"it " + network.OtherSource, "it " + network.NotEven + ": a filter"} {
		finds(what)
		e = Failure(s.blameWay(t.Context(), lost), nil)
		if !strings.Contains(e.What, what) || e.Fix != "ip rule" {
			t.Errorf("with a finding: %s; %s", e.What, e.Fix)
		}
	}
	for _, event := range []rendezvous.Event{{Kind: rendezvous.Back},
		{Kind: rendezvous.Progress, Attendance: &rendezvous.Attendance{Joined: 1, Want: 2}}} {
		s.wait.answered, s.wait.ui = false, ui.New(io.Discard, io.Discard, ui.Options{Env: os.Getenv})
		s.wait.event(event)
		if e := Failure(s.blameWay(t.Context(), lost), nil); strings.Contains(e.What, network.NotEven) {
			t.Errorf("after an answer: %s", e.What)
		}
	}
	s.wait.answered = false
	finds("1 of the store's 2 endpoints answer")
	if e := Failure(s.blameWay(t.Context(), lost), nil); strings.Contains(e.What, "endpoints answer") {
		t.Errorf("with a finding about one of its endpoints: %s", e.What)
	}
	finds("it " + network.NotEven)
	s.wait.setJoined(true)
	if e := Failure(s.blameWay(t.Context(), lost), nil); strings.Contains(e.What, network.NotEven) {
		t.Errorf("after it has joined: %s", e.What)
	}
}

func TestTheSecondWorldThatBreaksUpIsExplained(t *testing.T) {
	said := 0
	o := observer{ui: ui.New(io.Discard, io.Discard, ui.Options{Env: os.Getenv}), apart: func() { said++ }}
	for i, want := range []int{0, 1, 1} {
		o.event(rendezvous.Event{Kind: rendezvous.Broken, Text: "elm left"})
		if said != want {
			t.Errorf("after %d: explained %d times, want %d", i+1, said, want)
		}
	}
}
