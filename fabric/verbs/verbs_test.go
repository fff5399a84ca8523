package verbs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/fabric/verbs"
)

// Without RDMA devices, this still loads an installed library and calls it: a wrong
// prototype or a truncated pointer crashes here.
func TestDevicesAgreesWithSysfs(t *testing.T) {
	devices, err := verbs.Devices()
	switch {
	case errors.Is(err, verbs.ErrNoCgo), errors.Is(err, verbs.ErrNoLibrary):
		t.Skip(err)
	case errors.Is(err, verbs.ErrNoStack):
		if _, err := os.Stat("/sys/class/infiniband_verbs"); err == nil {
			t.Errorf("Devices: %v, but /sys/class/infiniband_verbs is there", verbs.ErrNoStack)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	for _, d := range devices {
		if _, err := os.Stat("/sys/class/infiniband/" + d.Name); err != nil {
			t.Errorf("device %q is not in sysfs: %v", d.Name, err)
		}
		if d.Opens != (d.Err == "") {
			t.Errorf("device %+v neither opens nor has a reason", d)
		}
	}
}

func TestDevicesCanBeAskedTwice(t *testing.T) {
	first, err1 := verbs.Devices()
	second, err2 := verbs.Devices()
	if diff := cmp.Diff(first, second); diff != "" || (err1 == nil) != (err2 == nil) {
		t.Errorf("errors %v and %v; devices (-first +second):\n%s", err1, err2, diff)
	}
}

func TestChildAnswersWithExactlyOneOutcome(t *testing.T) {
	var out bytes.Buffer
	if err := verbs.Child(t.Context(), nil, &out); err != nil {
		t.Fatal(err)
	}
	var got verbs.Facts
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Present == (got.Err != "") || got.Absent != "" {
		t.Errorf("answer = %+v, want either Present or Err", got)
	}
	t.Logf("libibverbs: %+v", got)
}
