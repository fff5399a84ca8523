package companion

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/masterport"
	"launch/rendezvous"
)

// cross sends an error over the socket, as JSON.
func cross(t *testing.T, err error) error {
	t.Helper()
	b, jerr := json.Marshal(faultOf(err))
	if jerr != nil {
		t.Fatal(jerr)
	}
	var f *fault
	if jerr := json.Unmarshal(b, &f); jerr != nil {
		t.Fatal(jerr)
	}
	return f.err()
}

func TestErrorsKeepTheirTypeAcrossTheSocket(t *testing.T) {
	m := rendezvous.Member{ID: "1", Index: 2, Host: "h"}
	for _, err := range []error{
		&rendezvous.MissingError{Attendance: rendezvous.Attendance{Come: 1, Want: 3, Here: []string{"h"}, Left: []rendezvous.Member{m}, Missing: []int{0, 1}}, Running: "h"},
		&rendezvous.DuplicateError{Self: m, Holder: m},
		&rendezvous.SupersededError{Self: m, Newer: m},
		&rendezvous.SizeError{Self: "2", Want: "3", First: "h"},
		&rendezvous.SpareError{Size: 2, Why: "rank 0 failed"},
		&rendezvous.OtherStoreError{Endpoint: "h:1", Job: "j", Host: "h"},
		&rendezvous.BrokenError{Why: "h left"},
		&rendezvous.UnfitError{Notes: []rendezvous.Note{{Name: "h", Index: 1, Text: "gpu.count: 7"}}, More: 2},
	} {
		if diff := cmp.Diff(err, cross(t, fmt.Errorf("wrapped: %w", err)), cmp.Comparer(func(a, b error) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) })); diff != "" {
			t.Errorf("(-sent +received):\n%s", diff)
		}
	}
	for _, s := range []error{rendezvous.ErrUnreachable, rendezvous.ErrPortTaken, rendezvous.ErrToken, masterport.ErrTaken} {
		err := fmt.Errorf("on host0: %w", s)
		got := cross(t, err)
		if !errors.Is(got, s) || got.Error() != err.Error() {
			t.Errorf("sent %v, received %v", err, got)
		}
	}
	if err := cross(t, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
