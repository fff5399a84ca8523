package start

import (
	"context"
	"io"
	"strings"
	"syscall"
	"testing"

	"launch/cmd/internal/ui"
	"launch/rendezvous"
)

// A node that a signal ends is seen by the others only where it has reached the store.
func TestOnlyANodeThatHasReachedTheStoreIsSeenToLeave(t *testing.T) {
	const seen = "the other nodes see"
	s := &Start{}
	s.wait.ui = ui.New(io.Discard, io.Discard, ui.Options{Env: func(string) string { return "" }})
	if e := s.failure(context.Canceled, syscall.SIGTERM); e.Code != 143 || strings.Contains(e.What, seen) {
		t.Errorf("without a store: %+v", e)
	}
	s.wait.event(rendezvous.Event{Kind: rendezvous.Lost, Text: "connection refused"})
	if e := s.failure(context.Canceled, syscall.SIGINT); e.Code != 130 || strings.Contains(e.What, seen) {
		t.Errorf("the store never answered: %+v", e)
	}
	s.wait.event(rendezvous.Event{Kind: rendezvous.Progress, Attendance: &rendezvous.Attendance{Joined: 1, Want: 2}})
	if e := s.failure(context.Canceled, syscall.SIGINT); !strings.Contains(e.What, seen) {
		t.Errorf("it has joined: %+v", e)
	}
	if e := s.failure(rendezvous.ErrFull, nil); strings.Contains(e.What, seen) {
		t.Errorf("no signal: %+v", e)
	}
}
