package companion

import (
	"errors"
	"fmt"
	"net/rpc"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/masterport"
	"launch/rendezvous"
)

// cross returns err as launch receives it.
func cross(err error) error {
	if err = sent(err); err == nil {
		return nil
	}
	return received(rpc.ServerError(err.Error()))
}

func TestErrorsKeepTheirTypeAcrossTheSocket(t *testing.T) {
	m := rendezvous.Member{ID: "1", Index: 2, Host: "h"}
	for _, err := range []error{
		&rendezvous.MissingError{Running: "h", Attendance: rendezvous.Attendance{
			Joined: 1, Want: 3, Here: []string{"h"}, Left: []rendezvous.Member{m}, Missing: []int{0, 1}}},
		&rendezvous.DuplicateError{Self: m, Holder: m},
		&rendezvous.SupersededError{Self: m, Newer: m},
		&rendezvous.SizeError{Self: "2", Want: "3", First: "h"},
		&rendezvous.SpareError{Size: 2, Why: "rank 0 failed"},
		&rendezvous.OtherStoreError{Endpoint: "h:1", Job: "j", Host: "h"},
		&rendezvous.BrokenError{Why: "h left"},
		&rendezvous.UnfitError{Notes: []rendezvous.Note{{Name: "h", Index: 1, Text: "gpu.count: 7"}}, More: 2},
	} {
		alike := cmp.Comparer(func(a, b error) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) })
		if diff := cmp.Diff(err, cross(fmt.Errorf("wrapped: %w", err)), alike); diff != "" {
			t.Errorf("(-sent +received):\n%s", diff)
		}
	}
	for _, s := range []error{rendezvous.ErrUnreachable, rendezvous.ErrPortTaken, rendezvous.ErrToken,
		masterport.ErrTaken} {
		err := fmt.Errorf("on host0: %w", s)
		got := cross(err)
		if !errors.Is(got, s) || got.Error() != err.Error() {
			t.Errorf("sent %v, received %v", err, got)
		}
	}
	if err := cross(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
