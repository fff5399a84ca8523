package ui

import (
	"fmt"
	"strings"
	"testing"

	"launch/rendezvous"
)

func TestLeftNamesNodesByReason(t *testing.T) {
	var all []rendezvous.Member
	for i, why := range []string{"it is unfit", "lost", "it is unfit"} {
		all = append(all, rendezvous.Member{Index: -1, Host: fmt.Sprint("n", i), Left: why})
	}
	if got, want := Left(all), "; n0, n2 joined and left: it is unfit; n1 joined and left: lost"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 9 {
		all = append(all, rendezvous.Member{Index: -1, Host: "m", Left: fmt.Sprint("reason ", i)})
	}
	if got := Left(all); !strings.HasSuffix(got, "reason 1; and others for other reasons") {
		t.Errorf("got %q", got)
	}
}
