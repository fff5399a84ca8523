package start

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"launch/cmd/internal/ui"
	"launch/rendezvous"
)

func TestALongSilenceOfTheStoreIsExplainedOnce(t *testing.T) {
	said := 0
	o := observer{ui: ui.New(io.Discard, io.Discard, ui.Options{Env: os.Getenv})}
	o.silent = func(_ context.Context, long bool) bool {
		if long {
			said++
		}
		return long
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
